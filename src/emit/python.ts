/** Python as text: literals and names that are safe whatever a job calls its things, and lines of a bearable width. */

const widest = 110

/** A string literal in ASCII: nothing in it can end it. */
export function quote(text: string): string {
  const escaped = Array.from(text, char => {
    const code = char.codePointAt(0)!
    if (char === '"' || char === '\\') return `\\${char}`
    if (char === '\n') return '\\n'
    if (code >= 0x20 && code < 0x7f) return char
    const hex = (digits: number) => code.toString(16).padStart(digits, '0')
    return code <= 0xffff ? `\\u${hex(4)}` : `\\U${hex(8)}`
  })
  return `"${escaped.join('')}"`
}

/** Within a comment or a docstring: one line, no quote that could end it. */
export const plain = (text: string): string => text.replace(/[^\x20-\x7e]|["\\]/g, '?').slice(0, 200)

export const number = (value: number): string => {
  if (!Number.isFinite(value)) throw new Error(`internal: ${value} has no literal in Python`)
  return value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential() : String(value)
}

const keywords = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from global if ' +
    'import in is lambda nonlocal not or pass raise return try while with yield ' +
    // What emitted modules use by name.
    'ctx ops torch'
  ).split(' '),
)

/** normSquared -> norm_squared */
export const snakeCase = (name: string): string =>
  name.replace(/(?<=[a-z0-9])[A-Z]/g, letter => `_${letter.toLowerCase()}`)

/** 'attn.q' -> attn_q. Two texts may give one name: who needs them apart counts. */
export function identifier(text: string): string {
  const name = snakeCase(text)
    .replace(/[^A-Za-z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '')
  return name === '' || /^[0-9]/.test(name) || keywords.has(name) ? `${name}_`.replace(/^([0-9])/, '_$1') : name
}

/** `head(a, b, c)` on one line, or an item list that is wrapped and indented below it. */
export function bracketed(head: string, groups: readonly (readonly string[])[], tail: string, indent = ''): string[] {
  const items = groups.flat()
  const line = `${indent}${head}${items.join(', ')}${tail}`
  if (line.length <= widest) return [line]
  const body = groups.filter(group => group.length > 0).flatMap(group => wrapped(group, `${indent}    `))
  return [`${indent}${head}`.trimEnd(), ...body, `${indent}${tail}`]
}

function wrapped(items: readonly string[], indent: string): string[] {
  const lines: string[] = []
  let line = indent
  for (const item of items) {
    const next = `${line}${line === indent ? '' : ' '}${item},`
    if (next.length > widest && line !== indent) {
      lines.push(line)
      line = `${indent}${item},`
    } else line = next
  }
  return [...lines, line]
}

/** A line as it is, or, where it is too long, the arguments of its outermost call on lines of their own. */
export function folded(line: string, indent: string): string[] {
  const [open, close] = [line.indexOf('('), line.lastIndexOf(')')]
  if (indent.length + line.length <= widest || open < 0) return [`${indent}${line}`]
  const [head, inner, tail] = [line.slice(0, open + 1), line.slice(open + 1, close), line.slice(close)]
  return [`${indent}${head}`, ...wrapped(argumentsOf(inner), `${indent}    `), `${indent}${tail}`]
}

/** What stands between the commas that are in no bracket and no string. */
function argumentsOf(text: string): string[] {
  const parts: string[] = []
  let [depth, quoted, from] = [0, false, 0]
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '"' && text[i - 1] !== '\\') quoted = !quoted
    if (quoted) continue
    if ('([{'.includes(text[i])) depth++
    if (')]}'.includes(text[i])) depth--
    if (text[i] === ',' && depth === 0) {
      parts.push(text.slice(from, i).trim())
      from = i + 1
    }
  }
  return [...parts, text.slice(from).trim()]
}
