/** What C and Python must agree on with our tables is written from them, and the files in git are what is written now. */
import { equal, match } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { version } from '../src/base/index.js'
import { nativeMissing } from '../src/engine/native/index.js'
import { platform } from '../src/platform/index.js'
import { later, test } from './families.js'

const root = new URL('../../', import.meta.url)
const { contracts } = (await import(new URL('scripts/contracts.mjs', root).href)) as {
  contracts: () => Readonly<Record<string, string>>
}

for (const [path, text] of Object.entries(contracts()))
  test(`${path} is as the tables are (node scripts/contracts.mjs writes it)`, () =>
    equal(readFileSync(new URL(path, root), 'utf8'), text))

test('checkpoints name the version of the package', () =>
  equal(version, JSON.parse(readFileSync(new URL('package.json', root), 'utf8')).version))

const flags = ['-O0', '-std=gnu11', '-fPIC', '-fvisibility=hidden']

test('kernels that were built for other tables are not run', { skip: nativeMissing() }, () => {
  const info = platform.loadNative().info()
  for (const contract of [1, undefined])
    match(
      nativeMissing(() => ({ info: () => ({ ...info, contract }) as typeof info })) ?? '',
      /another version.*npm run setup/,
    )
})

const compiler = spawnSync('cc', ['--version']).status === 0
later('a command without a kernel does not link', { skip: compiler ? false : 'no C compiler' }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'lockstep-kernels-'))
  try {
    cpSync(fileURLToPath(new URL('kernels', root)), folder, { recursive: true })
    const sources = readdirSync(folder).filter(name => /\.c$/.test(name) && !['addon.c', 'wasm.c'].includes(name))
    const cc = (...args: string[]) => spawnSync('cc', [...flags, ...args], { cwd: folder, encoding: 'utf8' })
    const link = () => cc('-shared', '-o', 'kernels.so', ...sources.map(name => name.replace(/c$/, 'o')))
    equal(cc('-c', ...sources).status, 0)
    equal(link().status, 0)
    const path = join(folder, 'optimizer.c')
    writeFileSync(path, readFileSync(path, 'utf8').replace('COMMAND(sgd)', 'COMMAND(momentum)'))
    equal(cc('-c', 'optimizer.c').status, 0)
    const { status, stderr } = link()
    equal(status, 1)
    match(stderr, /cmd_sgd/)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
