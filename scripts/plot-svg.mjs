/** Charts as SVG, without a library: points on logarithmic axes, bars, ranges. Colors follow the theme of the page. */

const style = `<style>text{font:12px system-ui,sans-serif;fill:#24292f}.t{font-weight:600;font-size:14px}.m{fill:#57606a}.g{stroke:#d0d7de}.k{stroke:#57606a;stroke-dasharray:4 3}.bg{fill:#fff}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.m{fill:#9198a1}.g{stroke:#30363d}.k{stroke:#9198a1}.bg{fill:#0d1117}}</style>`

/** Told apart in both themes, and by the color blind (Okabe and Ito). */
const colors = ['#0072b2', '#d55e00', '#009e73', '#cc79a7']

const round = n => Math.round(n * 10) / 10
const escaped = text => String(text).replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
const words = (x, y, text, more = '') => `<text x="${round(x)}" y="${round(y)}"${more}>${escaped(text)}</text>`
const line = (x1, y1, x2, y2, kind = 'g') =>
  `<path class="${kind}" fill="none" d="M${round(x1)} ${round(y1)}L${round(x2)} ${round(y2)}"/>`
const right = ' text-anchor="end"'
const middle = ' text-anchor="middle"'

function svg(width, height, title, body) {
  const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(title)}">`
  const background = `<rect class="bg" width="${width}" height="${height}"/>`
  return `${[head, style, background, words(16, 24, title, ' class="t"'), ...body, '</svg>'].join('\n')}\n`
}

const legend = (names, x, y) =>
  names.flatMap((name, i) => [
    `<circle cx="${x}" cy="${y + i * 18 - 4}" r="4" fill="${colors[i]}"/>`,
    words(x + 10, y + i * 18, name),
  ])

/** Measured against predicted on logarithmic axes, with lines where both are equal and where they differ by `band`. */
export function scatter({ title, from, to, ticks, band, x, y, series }) {
  const [left, top, size] = [70, 44, 400]
  const at = value => (Math.log(value / from) / Math.log(to / from)) * size
  const across = value => left + at(value)
  const down = value => top + size - at(value)
  const grid = ticks.flatMap(({ value, text }) => [
    line(across(value), top, across(value), top + size),
    line(left, down(value), left + size, down(value)),
    words(across(value), top + size + 16, text, `${middle} class="m"`),
    words(left - 8, down(value) + 4, text, `${right} class="m"`),
  ])
  const diagonal = (factor, kind) =>
    line(
      across(from * Math.max(1, 1 / factor)),
      down(from * Math.max(1, factor)),
      across(to * Math.min(1, 1 / factor)),
      down(to * Math.min(1, factor)),
      kind,
    )
  const points = series.map(
    ({ points }, i) =>
      `<path fill="none" stroke="${colors[i]}" stroke-opacity="0.55" stroke-width="4.5" stroke-linecap="round" d="${points
        .map(([a, b]) => `M${round(across(a))} ${round(down(b))}h0`)
        .join('')}"/>`,
  )
  const labels = [
    words(left + size / 2, top + size + 36, x, middle),
    `<g transform="translate(18 ${top + size / 2}) rotate(-90)">${words(0, 0, y, middle)}</g>`,
    ...legend(
      series.map(({ name }) => name),
      left + 16,
      top + 22,
    ),
  ]
  return svg(left + size + 30, top + size + 50, title, [
    ...grid,
    diagonal(1, 'k'),
    diagonal(1 + band, 'g'),
    diagonal(1 / (1 + band), 'g'),
    ...points,
    ...labels,
  ])
}

/** Horizontal bars in groups; a value has the text that is written at its end. */
export function bars({ title, names, groups, to, unit }) {
  const [left, top, width, bar] = [300, 44, 380, 14]
  const tall = names.length * bar + 16
  const across = value => left + (value / to) * width
  const body = groups.flatMap(({ label, values }, i) => {
    const y = top + 14 + i * tall
    return [
      words(left - 10, y + (names.length * bar) / 2 + 4, label, right),
      ...values.flatMap(({ value, text }, j) => [
        `<rect x="${left}" y="${y + j * bar}" width="${round(across(value) - left)}" height="${bar - 2}" fill="${colors[j]}"/>`,
        words(across(value) + 6, y + j * bar + 10, text, ' class="m" font-size="11"'),
      ]),
    ]
  })
  const bottom = top + 14 + groups.length * tall
  const key = names.flatMap((name, i) => [
    `<circle cx="${left + i * 190}" cy="${bottom + 10}" r="4" fill="${colors[i]}"/>`,
    words(left + i * 190 + 10, bottom + 14, name),
  ])
  return svg(left + width + 80, bottom + 30, `${title} (${unit})`, [
    line(left, top + 6, left, bottom - 6),
    ...body,
    ...key,
  ])
}

/** Ratios as ranges on a logarithmic axis, with a line at 1. */
export function ranges({ title, rows, ticks, from, to }) {
  const [left, top, width, tall] = [330, 44, 360, 26]
  const across = value => left + (Math.log(value / from) / Math.log(to / from)) * width
  const bottom = top + 14 + rows.length * tall
  const grid = ticks.flatMap(value => [
    line(across(value), top + 6, across(value), bottom, value === 1 ? 'k' : 'g'),
    words(across(value), bottom + 16, `${value}x`, `${middle} class="m"`),
  ])
  const body = rows.flatMap(({ label, low, high, color = 0 }, i) => {
    const y = top + 24 + i * tall
    const text = low === high ? `${low}` : `${low} to ${high}`
    return [
      words(left - 10, y + 4, label, right),
      `<path stroke="${colors[color]}" stroke-width="8" stroke-linecap="round" fill="none" d="M${round(across(low))} ${y}H${round(across(high) + 0.1)}"/>`,
      words(across(high) + 10, y + 4, text, ' class="m" font-size="11"'),
    ]
  })
  return svg(left + width + 90, bottom + 30, title, [...grid, ...body])
}

/** Columns of counts, stacked by series; values beyond the ends are counted in the outermost columns. */
export function histogram({ title, from, to, width, unit, series }) {
  const [left, top, across, tall] = [50, 66, 560, 240]
  const count = Math.round((to - from) / width)
  const binOf = value => Math.min(count - 1, Math.max(0, Math.floor((value - from) / width)))
  const counts = series.map(({ values }) => {
    const bins = new Array(count).fill(0)
    for (const value of values) bins[binOf(value)]++
    return bins
  })
  const totals = Array.from({ length: count }, (_, bin) => counts.reduce((sum, bins) => sum + bins[bin], 0))
  const scale = tall / Math.max(...totals)
  const wide = across / count
  const columns = totals.flatMap((_, bin) => {
    let base = top + tall
    return counts.map((bins, i) => {
      base -= bins[bin] * scale
      return `<rect x="${round(left + bin * wide + 1)}" y="${round(base)}" width="${round(wide - 2)}" height="${round(bins[bin] * scale)}" fill="${colors[i]}"/>`
    })
  })
  const numbers = totals.map((total, bin) =>
    words(left + (bin + 0.5) * wide, top + tall - total * scale - 4, total, `${middle} class="m"`),
  )
  const ticks = Array.from({ length: count / 4 + 1 }, (_, i) => from + 4 * i * width).map(value =>
    words(left + ((value - from) / width) * wide, top + tall + 18, `${value > 0 ? '+' : ''}${value} ${unit}`, middle),
  )
  const names = series.map(({ name }) => name)
  return svg(left + across + 30, top + tall + 32, title, [
    line(left, top + tall, left + across, top + tall),
    ...columns,
    ...numbers,
    ...ticks,
    ...legend(names, left + 8, 60),
  ])
}
