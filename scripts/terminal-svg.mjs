// A terminal recording as an SVG: commands and what they print appear line by line. Without CSS animations
// all of it is there at once.

const [fontSize, lineHeight, charWidth, padding, bar] = [13, 18, 7.83, 16, 30]
/** Seconds between lines of output, and before each command. */
const [perLine, perCommand] = [0.05, 0.9]

/** What the colors of a terminal are here, on a dark ground. */
const colors = {
  31: '#ff7b72',
  32: '#7ee787',
  33: '#e3b341',
  34: '#79c0ff',
  35: '#d2a8ff',
  36: '#76e3ea',
  90: '#8b949e',
}

const escaped = text => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

const escapeCode = String.fromCharCode(27)

/** A line with SGR codes as tspans: what follows an escape is `[1;32m` and then text. */
function spans(line) {
  let style = ''
  const [first, ...rest] = line.split(`${escapeCode}[`)
  const parts = rest.map(part => {
    const end = part.indexOf('m')
    for (const n of part.slice(0, end).split(';')) style = ['', '0', '22', '39'].includes(n) ? '' : style + styleOf(n)
    return span(part.slice(end + 1), style)
  })
  return [span(first, ''), ...parts].join('')
}

const span = (text, style) => (text === '' ? '' : `<tspan${style}>${escaped(text)}</tspan>`)

const styleOf = n =>
  n === '1' ? ' font-weight="700"' : n === '2' ? ' fill="#8b949e"' : colors[n] ? ` fill="${colors[n]}"` : ''

/** `shown`: [{ command, lines }], in order. */
export function terminalSvg(title, shown, columns = 100) {
  let at = 0.3
  const rows = shown.flatMap(({ command, lines }, i) => {
    const typed = { at, text: `<tspan fill="#7ee787">$</tspan> <tspan font-weight="700">${escaped(command)}</tspan>` }
    at += perCommand
    const printed = lines.map(line => ({ at: (at += perLine), text: spans(line) }))
    at += perCommand
    return [...(i > 0 ? [{ at, text: '' }] : []), typed, ...printed]
  })
  const [width, height] = [Math.ceil(columns * charWidth + 2 * padding), bar + rows.length * lineHeight + 2 * padding]
  const lines = rows.map(
    ({ at, text }, i) =>
      `<text x="${padding}" y="${bar + padding + (i + 0.75) * lineHeight}" style="animation-duration:${at.toFixed(2)}s" xml:space="preserve">${text}</text>`,
  )
  const dots = ['#ff5f57', '#febc2e', '#28c840'].map(
    (fill, i) => `<circle cx="${20 + 18 * i}" cy="16" r="5.5" fill="${fill}"/>`,
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(title)}">
<style>text{font:${fontSize}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6edf3;animation:not-yet}@keyframes not-yet{from,to{opacity:0}}@media (prefers-reduced-motion:reduce){text{animation:none}}</style>
<rect width="${width}" height="${height}" rx="8" fill="#0d1117"/>
${dots.join('')}
${lines.join('\n')}
</svg>
`
}
