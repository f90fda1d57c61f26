// Compiles kernels/*.c into dist/kernels/lockstep.node with the system's C compiler, tuned for this CPU, when the
// sources, the compiler or the CPU have changed. Where that cannot be done, dist/kernels/native.json says why, and
// WebAssembly runs instead: this script fails only if asked to (--strict). The register tile of matmul is compiled in the
// variants that kernels/variants.mjs has for the target, or, with --all, in all that the CPU has the vectors for.
// LOCKSTEP_MARCH names another target than this CPU: x86-64-v3 has AVX2 and no more, x86-64 plain SSE.
// --to FOLDER builds elsewhere.
// With --native the variants are timed for the native kernels only: WebAssembly times its own when it is first loaded.
// With --cached it builds into the user's cache folder, one folder per version, sources, compiler and CPU, and prints where
// the kernels are or why there are none: an installed package cannot count on writing to its own folder.
import { execFile, execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { availableParallelism, cpus } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { flagsOf, listFlag, targetOf, variants, vectorBytes } from '../kernels/variants.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const cached = process.argv.includes('--cached')
const compiler = process.env.CC ?? 'cc'
const march = process.env.LOCKSTEP_MARCH ?? 'native'
const tune = process.arch === 'arm64' ? `-mcpu=${march}` : `-march=${march}`
const all = process.argv.includes('--all')
// Not -ffast-math: exp cuts off its exponent by adding a large number, which it would cancel.
const flags = ['-O3', tune, '-std=gnu11', '-fno-math-errno', '-fno-trapping-math', '-fPIC', '-fvisibility=hidden']
const headers = headersFolder()
const to = process.argv.indexOf('--to')
const beside = to < 0 ? join(root, 'dist/kernels') : process.argv[to + 1]

const files = readdirSync(join(root, 'kernels')).filter(name => /\.([ch]|mjs)$/.test(name) && name !== 'wasm.c')

/** Installed packages lie beside each other, so the headers need not be below this one. */
function headersFolder() {
  try {
    return join(dirname(createRequire(import.meta.url).resolve('node-api-headers/package.json')), 'include')
  } catch {
    return undefined
  }
}

/** Only an installed package asks, and that is built. */
const cacheModule = () => import('../dist/src/platform/node-cache.js')

/** Throws where there is no cache, or where others could have put code into it. */
async function cacheFor(name) {
  const { distrustOf, userCache } = await cacheModule()
  const cache = userCache()
  if (cache === undefined) throw new Error('there is no cache folder: HOME and XDG_CACHE_HOME name none')
  const why = [cache, join(cache, name)].map(distrustOf).find(reason => reason !== undefined)
  if (why === undefined) return join(cache, name)
  console.error(`lockstep: warning: native kernels are not loaded: ${why}; WebAssembly runs instead`)
  throw new Error(why)
}

/** The checksum of what was built: a file that was cut off ends the process that loads it. */
const sumOf = file => createHash('sha256').update(readFileSync(file)).digest('hex')

function fingerprint(version) {
  const hash = createHash('sha256')
  for (const part of [version, cpus()[0]?.model ?? '', process.arch, ...flags, all]) hash.update(`${part}\n`)
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

/** The variants of the register tile for what the compiler compiles for. */
function variantsHere() {
  const macros = execFileSync(compiler, [...flags, '-dM', '-E', '-x', 'c', '/dev/null'], { encoding: 'utf8' })
  const target = targetOf(macros)
  return variants.filter(({ bytes, targets }) => (all ? bytes <= vectorBytes[target] : targets.includes(target)))
}

/** What is compiled: the name of an object, the source, and its own flags. Long sources first, so that no core waits for one at the end. */
function units(hash) {
  const chosen = variantsHere()
  const more = { 'variants.c': [listFlag(chosen)], 'addon.c': [`-I${headers}`, `-DBUILD="${hash.slice(0, 16)}"`] }
  const size = name => statSync(join(root, 'kernels', name)).size
  return files
    .filter(name => name.endsWith('.c'))
    .sort((a, b) => size(b) - size(a))
    .flatMap(source =>
      source === 'variant.c'
        ? chosen.map(variant => ({ object: `variant-${variant.name}`, source, more: flagsOf(variant) }))
        : [{ object: basename(source, '.c'), source, more: more[source] ?? [] }],
    )
}

async function compile(addon, hash) {
  const scratch = join(dirname(addon), `build-${process.pid}`)
  mkdirSync(scratch, { recursive: true, mode: cached ? 0o700 : 0o777 })
  try {
    const run = promisify(execFile)
    const waiting = units(hash)
    const objects = []
    const compileNext = async () => {
      for (let unit = waiting.shift(); unit; unit = waiting.shift()) {
        const path = join(scratch, `${unit.object}.o`)
        objects.push(path)
        await run(compiler, [...flags, ...unit.more, '-c', join(root, 'kernels', unit.source), '-o', path])
      }
    }
    await Promise.all(Array.from({ length: availableParallelism() }, compileNext))
    const undefinedIsNode = process.platform === 'darwin' ? ['-undefined', 'dynamic_lookup'] : []
    await run(compiler, ['-shared', ...undefinedIsNode, ...objects, '-o', join(scratch, 'lockstep.node')])
    renameSync(join(scratch, 'lockstep.node'), addon) // at once: another process may be loading it, or building it too
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** Builds what is not there, and says what is: `{ built, path }` or `{ built: false, reason }`. */
async function build() {
  const version = versionOf(compiler)
  const hash = version && fingerprint(version)
  const name = `${JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version}-${hash?.slice(0, 16)}`
  const folder = cached ? await cacheFor(name) : beside
  const [path, record] = [join(folder, 'lockstep.node'), join(folder, 'native.json')]
  const last = recordIn(record)
  const isThere = existsSync(path)
  if (hash && last.hash === hash && (last.built ? isThere && sumOf(path) === last.sum : true)) return { ...last, path }
  if (hash && last.hash === hash && isThere && last.sum)
    console.error(`lockstep: ${path} is damaged: it is built again`)
  const result = await attempt(version, hash, path)
  if (!cached || version) {
    mkdirSync(folder, { recursive: true, mode: cached ? 0o700 : 0o777 })
    writeFileSync(`${record}.${process.pid}`, `${JSON.stringify(result, null, 2)}\n`)
    renameSync(`${record}.${process.pid}`, record)
  }
  if (!cached && to < 0) await chooseVariants()
  return { ...result, path }
}

function recordIn(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return {} // not there, or cut off: built again
  }
}

/** Chooses now among the variants of what was built, and of WebAssembly, so that no first run has to. */
async function chooseVariants() {
  const engine = join(root, 'dist/src/engine/native/index.js')
  if (!existsSync(engine)) return
  const { chosenFor } = await import(pathToFileURL(engine))
  const targets = process.argv.includes('--native') ? ['native'] : ['native', 'relaxed', 'plain']
  for (const target of targets)
    try {
      chosenFor(target)
    } catch {} // it cannot run here; who asks for it is told why
}

async function attempt(version, hash, path) {
  if (!version) return { built: false, reason: `no C compiler: \`${compiler} --version\` does not run` }
  if (!headers) return { built: false, reason: 'the package node-api-headers is not installed' }
  if (cached) console.error('lockstep: building native kernels for this CPU, once')
  try {
    await compile(path, hash)
    return { built: true, hash, sum: sumOf(path), compiler: version, flags: flags.join(' ') }
  } catch (error) {
    rmSync(path, { force: true })
    const said = String(error.stderr ?? error.message).trim()
    return { built: false, hash, compiler: version, reason: `the compiler failed: ${said}` }
  }
}

const { built, path, reason } = await build().catch(error => ({ built: false, reason: error.message }))
if (cached) console.log(JSON.stringify(built ? { path } : { reason }))
if (process.argv.includes('--strict') && !built) {
  console.error(`build-kernels: ${reason}`)
  process.exit(1)
}
