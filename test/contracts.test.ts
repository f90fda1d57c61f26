/** What C and Python must agree on with our tables is written from them, and the files in git are what is written now. */
import { equal, match } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = new URL('../../', import.meta.url)
const { contracts } = (await import(new URL('scripts/contracts.mjs', root).href)) as {
  contracts: () => Readonly<Record<string, string>>
}

for (const [path, text] of Object.entries(contracts()))
  test(`${path} is as the tables are (node scripts/contracts.mjs writes it)`, () =>
    equal(readFileSync(new URL(path, root), 'utf8'), text))

/** What the C compiler says of the kernels, some of whose text is changed. */
function linked(change: (text: string) => string): { status: number | null; said: string } {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-kernels-'))
  try {
    cpSync(fileURLToPath(new URL('kernels', root)), folder, { recursive: true })
    const sources = readdirSync(folder).filter(name => /\.c$/.test(name) && !['addon.c', 'wasm.c'].includes(name))
    const path = join(folder, 'optimizer.c')
    writeFileSync(path, change(readFileSync(path, 'utf8')))
    const flags = ['-O0', '-std=gnu11', '-fPIC', '-fvisibility=hidden', '-shared', '-o', 'kernels.so']
    const { status, stderr } = spawnSync('cc', [...flags, ...sources], { cwd: folder, encoding: 'utf8' })
    return { status, said: stderr }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const compiler = spawnSync('cc', ['--version']).status === 0
test('a command without a kernel does not link', { skip: compiler ? false : 'no C compiler' }, () => {
  equal(linked(text => text).status, 0)
  const { status, said } = linked(text => text.replace('COMMAND(sgd)', 'COMMAND(momentum)'))
  equal(status, 1)
  match(said, /cmd_sgd/)
})
