/** docs/api.md: the blocks of the page are one program, and it runs. */
import { deepEqual, equal, match } from 'node:assert/strict'
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

test('the page names everything that is exported, and nothing else is called there', () => {
  const called = [...page.matchAll(/lockstep\.(\w+)/g)].map(([, name]) => name)
  const named = new Set([...called, ...[...page.matchAll(/`(\w+)[`(]/g)].map(([, name]) => name)])
  deepEqual(
    called.filter(name => !(name in api)),
    [],
  )
  deepEqual(
    Object.keys(api).filter(name => !named.has(name)),
    [],
  )
})
