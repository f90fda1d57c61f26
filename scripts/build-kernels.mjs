// Compiles kernels/*.c into dist/kernels/lockstep.node with the system's C compiler, tuned for this CPU, when the
// sources, the compiler or the CPU have changed. Where that cannot be done, dist/kernels/native.json says why, and
// WebAssembly runs instead: this script fails only if asked to (--strict).
import { execFile, execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const out = join(root, 'dist/kernels')
const addon = join(out, 'lockstep.node')
const record = join(out, 'native.json')
const compiler = process.env.CC ?? 'cc'
const tune = process.arch === 'arm64' ? '-mcpu=native' : '-march=native'
// Not -ffast-math: exp cuts off its exponent by adding a large number, which it would cancel.
const flags = ['-O3', tune, '-std=gnu11', '-fno-math-errno', '-fno-trapping-math', '-fPIC', '-fvisibility=hidden']
const headers = join(root, 'node_modules/node-api-headers/include')

const files = readdirSync(join(root, 'kernels')).filter(name => /\.[ch]$/.test(name) && name !== 'wasm.c')

function fingerprint(version) {
  const hash = createHash('sha256')
  for (const part of [version, cpus()[0]?.model ?? '', process.arch, ...flags]) hash.update(`${part}\n`)
  for (const name of files.sort()) hash.update(name).update(readFileSync(join(root, 'kernels', name)))
  return hash.digest('hex')
}

function versionOf(command) {
  try {
    return execFileSync(command, ['--version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).split(
      '\n',
    )[0]
  } catch {
    return undefined
  }
}

async function compile() {
  const scratch = join(out, `build-${process.pid}`)
  mkdirSync(scratch, { recursive: true })
  try {
    const run = promisify(execFile)
    const objects = await Promise.all(
      files
        .filter(name => name.endsWith('.c'))
        .map(async name => {
          const object = join(scratch, `${basename(name, '.c')}.o`)
          await run(compiler, [...flags, `-I${headers}`, '-c', join(root, 'kernels', name), '-o', object])
          return object
        }),
    )
    const undefinedIsNode = process.platform === 'darwin' ? ['-undefined', 'dynamic_lookup'] : []
    await run(compiler, ['-shared', ...undefinedIsNode, ...objects, '-o', join(scratch, 'lockstep.node')])
    renameSync(join(scratch, 'lockstep.node'), addon) // at once: another process may be loading it
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

async function build() {
  const version = versionOf(compiler)
  if (!version) return { built: false, reason: `no C compiler: \`${compiler} --version\` does not run` }
  if (!existsSync(headers)) return { built: false, reason: 'the package node-api-headers is not installed' }
  const hash = fingerprint(version)
  const last = existsSync(record) ? JSON.parse(readFileSync(record, 'utf8')) : {}
  if (last.hash === hash && (existsSync(addon) || !last.built)) return undefined
  try {
    await compile()
    return { built: true, hash, compiler: version, flags: flags.join(' ') }
  } catch (error) {
    rmSync(addon, { force: true })
    const said = String(error.stderr ?? error.message).trim()
    return { built: false, hash, compiler: version, reason: `the compiler failed: ${said}` }
  }
}

mkdirSync(out, { recursive: true })
const result = await build()
if (result) writeFileSync(record, `${JSON.stringify(result, null, 2)}\n`)
if (process.argv.includes('--strict')) {
  const { built, reason } = JSON.parse(readFileSync(record, 'utf8'))
  if (!built) {
    console.error(`build-kernels: ${reason}`)
    process.exit(1)
  }
}
