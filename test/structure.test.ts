/** The limits of scripts/structure.mjs: each finds what it should, and the sources keep to all of them. */
import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'

const { cyclesIn, forbiddenIn, structureOf, typesTwice } = await import(
  new URL('../../scripts/structure.mjs', import.meta.url).href
)

test('files that load each other are a cycle; types and import() are not', () => {
  const cycle = { 'src/a/x.ts': "import { y } from './y.js'", 'src/a/y.ts': "import {\n  x,\n} from './x.js'" }
  deepEqual(cyclesIn(cycle), [['src/a/x.ts', 'src/a/y.ts']])
  deepEqual(cyclesIn({ ...cycle, 'src/a/y.ts': "import type { X } from './x.js'" }), [])
  deepEqual(cyclesIn({ ...cycle, 'src/a/y.ts': "const x = () => import('./x.js')" }), [])
  deepEqual(cyclesIn({ ...cycle, 'src/a/y.ts': "export * from './x.js'" }), [['src/a/x.ts', 'src/a/y.ts']])
})

test('a type name belongs to one file of its folder', () => {
  const sources = { 'src/a/x.ts': 'export interface Place {}', 'src/a/y.ts': 'type Place = 1' }
  deepEqual(typesTwice(sources), ['src/a: Place in src/a/x.ts, src/a/y.ts'])
  deepEqual(typesTwice({ 'src/a/x.ts': 'interface Place {}', 'src/b/y.ts': 'interface Place {}' }), [])
})

test('private, state of a module and Node in a pure folder are found with their line', () => {
  const sources = {
    'src/a/x.ts': 'class X {\n  private y = 1\n}\nconst known = new Map<string, number>()\nlet count = 0',
    'src/a/y.ts': "import { readFileSync } from 'node:fs'",
    'src/cli/z.ts': "import { readFileSync } from 'node:fs'\nconst table = new Set(['a'])",
  }
  deepEqual(forbiddenIn(sources), [
    'src/a/x.ts:2 private: write #',
    'src/a/x.ts:4 state of a module',
    'src/a/x.ts:5 state of a module',
    'src/a/y.ts:1 Node in a pure folder',
  ])
})

test('the sources keep to every limit', () => {
  const { broken } = structureOf(process.cwd())
  for (const [what, places] of Object.entries(broken)) deepEqual(places, [], what)
})
