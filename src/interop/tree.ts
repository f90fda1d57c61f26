/** A configuration as plain values, with the line of every key. */
import { parseText } from '../plan/index.js'
import { Fields } from './fields.js'
import { readJson } from './json.js'
import { Scanner, SyntaxRefused } from './scanner.js'
import { readToml } from './toml.js'

export interface Tree {
  readonly value: unknown
  readonly lineOf: (path: string) => number | undefined
  /** Keys that stand twice; the later counts. */
  readonly twice: readonly { readonly path: string; readonly line: number }[]
  /** Why the text cannot be read, and where. */
  readonly refused: readonly { readonly path: string; readonly line: number; readonly message: string }[]
}

export type Notation = 'json' | 'yaml' | 'toml'

/** The most characters of a configuration. */
export const mostText = 2 ** 20

export function readTree(text: string, notation: Notation): Tree {
  if (text.length > mostText) return unread(`${text.length} characters: too long for a configuration`, 1)
  return notation === 'yaml' ? ofYaml(text) : scanned(text, notation)
}

const unread = (message: string, line: number): Tree => ({
  value: undefined,
  lineOf: () => undefined,
  twice: [],
  refused: [{ path: '', line, message }],
})

function scanned(text: string, notation: 'json' | 'toml'): Tree {
  const fields = new Fields()
  const scanner = new Scanner(text)
  try {
    const value = notation === 'json' ? readJson(scanner, fields) : readToml(scanner, fields)
    return { value, lineOf: path => fields.lines.get(path), twice: fields.twice, refused: [] }
  } catch (e) {
    if (e instanceof SyntaxRefused) return unread(e.message, e.line)
    throw e
  }
}

/** Words such as `no` and `on`, which YAML 1.1 takes for booleans, stay words: whoever asks for a boolean knows them. */
function ofYaml(text: string): Tree {
  const kind = { name: 'configuration', holds: 'expected keys and values' }
  const { value, problems, locate } = parseText(text, kind)
  const at = (line: number | undefined) => line ?? 1
  return {
    value,
    lineOf: path => {
      const found = locate({ severity: 'error', code: 'schema/key', path, message: '' })
      return found.line
    },
    twice: problems.filter(p => p.code === 'file/duplicate').map(p => ({ path: p.path, line: at(p.line) })),
    refused: problems
      .filter(p => p.code !== 'file/duplicate')
      .map(p => ({ path: p.path, line: at(p.line), message: p.message })),
  }
}
