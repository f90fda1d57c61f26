/** The lint of words: every rule catches its example, comments and names are left alone, and what users read keeps to all rules. */
import { deepEqual, match } from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

interface Rule {
  readonly pattern: RegExp
  readonly instead: string
  readonly example: string
}

const { findingsBelow, findingsIn, rules } = (await import(
  new URL('../../scripts/words.mjs', import.meta.url).href
)) as {
  findingsBelow: (root: string) => string[]
  findingsIn: (path: string, source: string) => string[]
  rules: readonly Rule[]
}

test('every rule catches its example and says what to write instead', () => {
  for (const { pattern, instead, example } of rules) {
    match(example, pattern)
    match(instead, /\S/)
  }
})

test('a forbidden word in a message or on a page is found with its line', () => {
  const table =
    "/** nobody reads this */\nconst phrases = {\n  'run/x': ['nobody can tell', \"4 bytes a parameter\"],\n}"
  deepEqual(findingsIn('src/run/phrases.ts', table), [
    'src/run/phrases.ts:3: "nobody": write no rank, another process, all ranks, the caller',
    'src/run/phrases.ts:3: "bytes a parameter": write per',
  ])
  deepEqual(findingsIn('docs/x.md', 'First.\nThe run goes on.'), ['docs/x.md:2: "goes on": write continue, resume'])
})

test('names, codes and comments are no text for users', () => {
  deepEqual(findingsIn('src/run/phrases.ts', "// nobody\nconst heldOut = 'held-out'\nkey('checkpoint/damaged')"), [])
})

test('of declarations on a page only the comments are prose', () => {
  deepEqual(findingsIn('docs/x.md', '```ts\n/** nobody */\nconst normalise = 1\n```\nnobody'), [
    'docs/x.md:2: "nobody": write no rank, another process, all ranks, the caller',
    'docs/x.md:5: "nobody": write no rank, another process, all ranks, the caller',
  ])
})

test('what users read keeps to the rules', () =>
  deepEqual(findingsBelow(fileURLToPath(new URL('../../', import.meta.url))), []))
