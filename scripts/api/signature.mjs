/** Declarations as a page shows them: functions as functions, long lines folded, large tables and schemas by their names. */

const wide = 100
const pairs = { '(': ')', '[': ']', '{': '}', '<': '>' }

/** Text between separators that are outside of all brackets. */
export function splitTop(text, separator) {
  const parts = []
  let depth = 0
  let start = 0
  for (let at = 0; at < text.length; at++) {
    if ('\'`"'.includes(text[at])) {
      const quote = text[at++]
      while (text[at] !== quote) at += text[at] === '\\' ? 2 : 1
    } else if (pairs[text[at]]) depth++
    else if (')]}'.includes(text[at]) || (text[at] === '>' && text[at - 1] !== '=')) depth--
    else if (depth === 0 && text.startsWith(separator, at)) {
      parts.push(text.slice(start, at))
      start = at + separator.length
    }
  }
  return [...parts, text.slice(start)]
}

/** Index after the bracket that closes the one at `at`. */
function closing(text, at) {
  let depth = 0
  for (let i = at; i < text.length; i++) {
    if (pairs[text[i]]) depth++
    else if (')]}'.includes(text[i]) || (text[i] === '>' && text[i - 1] !== '=')) depth--
    if (depth === 0) return i + 1
  }
  return text.length
}

/** `const f: (a: A) => B` is a function to its caller. */
function asFunction(text) {
  const [, name, type] = /^const (\w+): ([\s\S]*)$/.exec(text) ?? []
  if (type === undefined || !'(<'.includes(type[0])) return text
  const open = type[0] === '<' ? closing(type, 0) : 0
  if (type[open] !== '(') return text
  const end = closing(type, open)
  return type.startsWith(' => ', end) ? `function ${name}${type.slice(0, end)}: ${type.slice(end + 4)}` : text
}

/** A parameter that the source destructures is called after its type here. */
function parameterOf(text) {
  if (text[0] !== '{') return text
  const type = text.slice(closing(text, 0))
  const [, name] = /^\??: (?:Pick<|Omit<|NodeJS\.|readonly )?([A-Z]\w*)/.exec(type) ?? [undefined, 'options']
  return `${name[0].toLowerCase()}${name.slice(1)}${type}`
}

function named(text) {
  const open = text.indexOf('(')
  const end = closing(text, open) - 1
  const given = splitTop(text.slice(open + 1, end), ', ').map(parameterOf)
  return `${text.slice(0, open + 1)}${given.join(', ')}${text.slice(end)}`
}

/** A table of many entries by its keys, a Zod schema by the type it parses to. */
function folded(text) {
  const [, name, type] = /^const (\w+): ([\s\S]*)$/.exec(text) ?? []
  if (type === undefined) return text
  if (/^z\.Zod/.test(type)) return `const ${name}: z.ZodType<${name}>`
  if (type.length < 600 || !type.startsWith('{')) return text
  const keys = [...type.matchAll(/^ {4}(?:readonly )?('[^']+'|\w+):/gm)].map(([, key]) =>
    key.replace(/^(\w+)$/, "'$1'"),
  )
  const shown = keys.length > 40 ? [...keys.slice(0, 40), '...'] : keys
  return `const ${name}: Readonly<Record<\n${shown.map(key => `  | ${key}`).join('\n')},\n  ...\n>>`.replaceAll(
    '| ...',
    '| ...',
  )
}

const members = (text, indent) => splitTop(text, ', ').map(part => `${indent}${part},`)

function foldFunction(text) {
  const open = text.indexOf('(')
  const end = closing(text, open)
  const given = text.slice(open + 1, end - 1)
  if (given === '') return text
  return [text.slice(0, open + 1), ...members(given, '  '), text.slice(end - 1)].join('\n')
}

function foldType(text) {
  const equals = text.indexOf(' = ')
  for (const sign of ['|', '&']) {
    const parts = splitTop(text.slice(equals + 3), ` ${sign} `)
    if (parts.length > 1)
      return [text.slice(0, equals + 2), ...parts.map(part => `  ${sign} ${part.trim()}`)].join('\n')
  }
  return text
}

/** A list of names, as many to a line as fit. */
function foldList(text) {
  const open = text.indexOf('readonly [') + 'readonly ['.length
  const lines = ['']
  for (const part of splitTop(text.slice(open, -1), ', ')) {
    const longer = `${lines[lines.length - 1]} ${part},`
    if (longer.length < wide - 1) lines[lines.length - 1] = longer
    else lines.push(` ${part},`)
  }
  return [text.slice(0, open), ...lines.map(line => ` ${line}`), ']'].join('\n')
}

/** One declaration, without `export` and `declare`. */
export function signatureOf({ text, name, kind }) {
  const bare = text
    .replace(/^export /, '')
    .replace(/^declare /, '')
    .replace(/^ {4}#private;\n/m, '')
    .replace(/;$/, '')
  if (kind === 'type' && /= (z\.|ReturnType<)/.test(bare) && bare.length > 400)
    return `type ${name} = z.infer<typeof ${name}>`
  const shown = kind === 'const' ? folded(asFunction(bare)) : bare
  const called = shown.startsWith('function') ? named(shown) : shown
  const indented = called.replace(/^( {4})+/gm, spaces => ' '.repeat(spaces.length / 2)).replace(/;$/gm, '')
  if (indented.includes('\n') || indented.length <= wide) return indented
  if (indented.startsWith('function')) return foldFunction(indented)
  if (/^const \w+: readonly \[.*\]$/.test(indented)) return foldList(indented)
  return kind === 'type' ? foldType(indented) : indented
}

/** Names of types in a declaration: its own, its parameters and properties are not among them. */
export const typeNamesIn = text => [
  ...new Set(
    [
      ...text
        .replace(/\/\*[\s\S]*?\*\//g, '')
        .replace(/'[^']*'/g, '')
        .matchAll(/\b[A-Z]\w*/g),
    ].map(([word]) => word),
  ),
]
