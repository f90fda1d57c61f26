/** The package as a dependency: packed, installed elsewhere, it builds its native kernels on first use, or says why not. */
import { equal, match, ok } from 'node:assert/strict'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { later } from './families.js'

const folder = mkdtempSync(join(tmpdir(), 'lockstep-installed-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const npm = (args: readonly string[], cwd: string): string =>
  execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 120_000 })

/** Why it could not be installed here; undefined where it was. Only where a test runs. */
let refusal: { readonly why: string | undefined } | undefined
function install(): string | undefined {
  refusal ??= { why: installed() }
  return refusal.why
}

function installed(): string | undefined {
  try {
    const packed = npm(['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], process.cwd()).trim()
    writeFileSync(join(folder, 'package.json'), '{ "private": true }')
    npm(['install', '--prefer-offline', '--no-audit', '--no-fund', join(folder, packed)], folder)
    return undefined
  } catch (error) {
    return `npm cannot install here: ${(error as Error).message.split('\n')[0]}`
  }
}

const job = `model: { family: mlp, layers: 2, embed: 4 }
training: { seq: 4, globalBatch: 8, steps: 9, optimizer: { kind: sgd, lr: 0.01 } }
plan: { dp: 2 }`

interface Ran {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** What `npx lockstep train` starts, with a cache of its own; `CC` names the compiler. */
const train = (run: string, env: Readonly<Record<string, string>> = {}): Promise<Ran> =>
  new Promise(resolve => {
    const args = ['train', 'job.yaml', '--steps', '2', '--json', '--out', run]
    const surroundings = { ...process.env, XDG_CACHE_HOME: join(folder, 'cache'), ...env }
    const child = execFile(
      join(folder, 'node_modules/.bin/lockstep'),
      args,
      { cwd: folder, env: surroundings },
      (_, out, err) => resolve({ code: child.exitCode, out, err }),
    )
  })

const cc = process.env.CC ?? 'cc'
const compiler = spawnSync(cc, ['--version']).status === 0

/** The same compiler in a hurry: kernels that are optimized, set-up has built. Of variants, each first use times products. */
function hasty(): string {
  const file = join(folder, 'cc')
  const script = `case "$*" in *variant*) exec ${cc} "$@" -O1 ;; *) exec ${cc} "$@" -O0 ;; esac`
  writeFileSync(file, `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  return file
}

later('two first uses at once build the native kernels, the next finds them', async t => {
  const refused = install()
  if (refused) return t.skip(refused)
  writeFileSync(join(folder, 'job.yaml'), job)
  const env: Readonly<Record<string, string>> = compiler
    ? { CC: hasty(), ...(process.arch === 'x64' && { LOCKSTEP_MARCH: 'x86-64' }) }
    : {}
  const runs = [...(await Promise.all([train('a', env), train('b', env)])), await train('c', env)]
  for (const { code, out, err } of runs) {
    equal(code, 0, err)
    equal(out.trimEnd().split('\n').length, 2)
    match(err, compiler ? /Kernels: native, / : /Kernels: WebAssembly.*\(no native kernels: no C compiler/)
  }
  if (!compiler) return
  const [cache] = readdirSync(join(folder, 'cache/lockstep'))
  ok(readdirSync(join(folder, 'cache/lockstep', cache)).includes('lockstep.node'))
  ok(!runs[2].err.includes('building'), runs[2].err)
})

later('without a compiler WebAssembly runs, and says why', async t => {
  const refused = install()
  if (refused) return t.skip(refused)
  writeFileSync(join(folder, 'job.yaml'), job)
  const { code, err } = await train('d', { CC: '/nonexistent' })
  equal(code, 0, err)
  match(err, /Kernels: WebAssembly, .*\(no native kernels: no C compiler: `\/nonexistent --version` does not run\)/)
})
