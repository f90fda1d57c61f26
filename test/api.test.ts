/** docs/api.md: the blocks of the page are one program, and it runs. docs/reference: every export, as it is declared. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after } from 'node:test'
import * as api from '../src/index.js'
import { later, test } from './families.js'

const folder = mkdtempSync(join('dist', 'api-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const page = readFileSync('docs/api.md', 'utf8')

later('the program of docs/api.md runs', { timeout: 240_000 }, () => {
  const blocks = [...page.matchAll(/```js\n([\s\S]*?)```/g)].map(([, code]) => code)
  const [imports, ...rest] = blocks
  const file = join(folder, 'page.mjs')
  const saved = JSON.stringify(join(folder, 'saved'))
  writeFileSync(file, `${imports}const folder = ${saved}\n${rest.join('\n')}`)
  const { status, stdout, stderr } = spawnSync(process.execPath, [file], { encoding: 'utf8' })
  equal(status, 0, stderr)
  match(stdout, /^plan\/indivisible at plan\.tp\n[\s\S]*^true 0\n^true\n[\s\S]*^5\n/m)
})

test('the page calls nothing that is not exported', () => {
  const called = [...page.matchAll(/(?<!\/)lockstep\.(\w+)/g)].map(([, name]) => name)
  deepEqual(
    called.filter(name => !(name in api)),
    [],
  )
})

const script = (name: string) => import(new URL(`../../scripts/${name}.mjs`, import.meta.url).href)

test('docs/reference has every export with its signature and comment', async () => {
  const { apiPages } = await script('api-page')
  for (const [path, text] of Object.entries(apiPages() as Readonly<Record<string, string>>))
    ok(
      readFileSync(path, 'utf8') === text,
      `${path} is not what the declarations say: node scripts/api-page.mjs writes it`,
    )
})

test('everything public is on its page, and has a comment', async () => {
  const { apiPages, entries, withoutComment } = await script('api-page')
  for (const entry of entries) deepEqual(withoutComment(entry), [], `${entry.name}: exports without a comment`)
  const [text] = Object.values(apiPages() as Readonly<Record<string, string>>)
  deepEqual(
    Object.keys(api).filter(name => !text.includes(`\n### \`${name}\`\n`)),
    [],
  )
})

test('declarations are read as tsc writes them', async () => {
  const { statementsOf } = await script('api/declarations')
  const { signatureOf, splitTop } = await script('api/signature')
  const text = [
    "import type { A } from './a.js';",
    '/** A pair; of "x}". */',
    'export interface Pair {',
    "    readonly a: '}' | A;",
    '}',
    'export declare const make: (a: A) => Pair;',
  ].join('\n')
  const [, pair, make] = statementsOf(text)
  equal(pair.comment.text, '/** A pair; of "x}". */')
  equal(signatureOf({ ...pair, name: 'Pair', kind: 'interface' }), "interface Pair {\n  readonly a: '}' | A\n}")
  equal(make.comment, undefined)
  equal(signatureOf({ ...make, name: 'make', kind: 'const' }), 'function make(a: A): Pair')
  const taken = "export declare function peaksOf({ a, b: { c } }: Pick<Session, 'a'>, n: number): A;"
  equal(
    signatureOf({ text: taken, name: 'peaksOf', kind: 'function' }),
    "function peaksOf(session: Pick<Session, 'a'>, n: number): A",
  )
  deepEqual(splitTop("a: (x: A, y: B) => C, b: Map<A, ', '>", ', '), ['a: (x: A, y: B) => C', "b: Map<A, ', '>"])
})
