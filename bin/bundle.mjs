// The command line as one file (scripts/build-cli.mjs makes it): each module would cost a millisecond, and a command needs hundreds.
// What V8 has compiled of it is kept for each command, so that the next start compiles next to nothing.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { getHeapCodeStatistics, setFlagsFromString } from 'node:v8'
import { Script } from 'node:vm'

const at = path => fileURLToPath(new URL(`../${path}`, import.meta.url))
const written = path => statSync(at(path), { throwIfNoEntry: false })?.mtimeMs

export const bundlePath = at('dist/cli/lockstep.cjs')
export const keptBeside = at('dist/cli/kept')

/**
 * What a bundle is made of, by modification times; undefined where the package is installed and nothing of it changes.
 * `tsc -b` touches the record of src/cli whatever it builds, since the command line depends on all other folders; build-modules.mjs has one of its own.
 */
export function sources() {
  const built = ['dist/info/cli.json', 'dist/info/modules.json'].map(written).join()
  const others = ['node_modules/.package-lock.json', 'bin/bundle.mjs', 'scripts/build-cli.mjs']
  return built === ',' ? undefined : [built, ...others.map(written)].join()
}

/** The bundle, whose first line is a comment that says what it was made of; undefined where there is none of the modules of today. */
export function freshBundle() {
  const now = sources()
  try {
    const code = readFileSync(bundlePath, 'latin1') // it is ASCII, and this is the quickest way to a string
    const { hash, from } = JSON.parse(code.slice(2, code.indexOf('\n')))
    return now === undefined || now === from ? { code, hash, installed: now === undefined } : undefined
  } catch {
    return undefined // not there, or no bundle of ours
  }
}

/** What the bundle exports: it is a function of what a module would find around it. */
export async function loadBundle({ code, hash, installed }, command) {
  const kept = { folder: installed ? await cacheOfCode() : keptBeside, hash, command }
  const cachedData = keptFor(kept)
  const script = new Script(code, { filename: bundlePath, cachedData })
  const exported = {}
  const placeOf = path => new URL(`../dist/src/${path}`, import.meta.url).href
  script.runInThisContext()(exported, createRequire(import.meta.url), placeOf, name => import(name))
  const known = cachedData !== undefined && !script.cachedDataRejected
  process.once('exit', keeping(script, kept, known))
  return exported
}

/** undefined: the user has no cache, or others could have put code into it. */
async function cacheOfCode() {
  const { distrustOf, userCache } = await import('../dist/src/platform/node-cache.js')
  const cache = userCache()
  const folder = cache && join(cache, 'cli')
  return folder && distrustOf(cache) === undefined && distrustOf(folder) === undefined ? folder : undefined
}

/** Bytes of compiled code that are worth keeping: Node alone compiles some 80,000 of its own in a command. */
const enough = 200_000

/** At the end of a process V8 has compiled what the command needs. A long one that finds something kept leaves it as it is. */
function keeping(script, kept, known) {
  const size = () => getHeapCodeStatistics().bytecode_and_metadata_size
  const before = size()
  // What ran long ago is dropped: of a long command that would be its start.
  if (!known) setFlagsFromString('--no-flush-bytecode')
  return code => {
    if (code === 2) return // a line that is no command
    if (known && (process.uptime() > 2 || size() - before < enough)) return
    // V8 takes nothing that was made under other flags than it has when it starts.
    for (const flag of ['--flush-bytecode', '--no-always-sparkplug']) setFlagsFromString(flag)
    keep(script.createCachedData(), kept)
  }
}

/** Of one version of Node and one bundle: V8 itself would ask no more of the source than its length. */
const nameOf = ({ command, hash }) => `${nodeOf(command)}${hash}`
const nodeOf = command => `${command}-${process.version}-${process.arch}-`

function keptFor(kept) {
  if (kept.folder === undefined) return undefined
  try {
    return readFileSync(join(kept.folder, nameOf(kept)))
  } catch {
    return undefined
  }
}

/** At once: others may be reading it. A folder that cannot be written to only means that nothing is kept. */
function keep(data, kept) {
  if (kept.folder === undefined) return
  const path = join(kept.folder, nameOf(kept))
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    writeFileSync(`${path}.${process.pid}`, data)
    renameSync(`${path}.${process.pid}`, path)
    for (const name of readdirSync(kept.folder))
      if (name.startsWith(nodeOf(kept.command)) && !name.startsWith(nameOf(kept)))
        rmSync(join(kept.folder, name), { force: true })
  } catch {}
}
