// Builds what a fresh clone needs before `npm start` or `npm test`, and after a change what has changed. Every phase checks first whether its
// output is up to date, so a second start costs only the checks. Phases that do not depend on each other run side by side.
//   --start     what commands need: modules without type checking, the bundled command line, the native kernels
//   --packages  the npm packages only
import { spawn } from 'node:child_process'
import { existsSync, realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const at = path => join(root, path)
const age = path => (existsSync(at(path)) ? statSync(at(path)).mtimeMs : 0)
const seconds = since => `${((performance.now() - since) / 1000).toFixed(1)} s`
const started = performance.now()
/** Imported by bin/lockstep.mjs, where nothing was built yet. */
const isImported = realpathSync(process.argv[1]) !== fileURLToPath(import.meta.url)
const starts = isImported || process.argv.includes('--start')
/** A phase that takes less time is not announced. */
const quietMs = 700

let announced = false
function announce(line) {
  announced = true
  console.error(`setup: ${line}`)
}

const running = new Set()

/** Runs one phase; `title` is shown when it takes a while, and again with its time. Its own output is shown if it fails. */
async function phase(title, command, args) {
  const since = performance.now()
  let [isShown, output] = [false, '']
  const timer = setTimeout(() => {
    isShown = true
    announce(`${title} ...`)
  }, quietMs)
  const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
  running.add(child)
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', text => {
      output += text
    })
  const code = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve))
  running.delete(child)
  clearTimeout(timer)
  if (code !== 0) {
    for (const other of running) other.kill()
    console.error(output.trimEnd())
    console.error(`setup: failed: ${title}`)
    process.exit(code ?? 1)
  }
  if (isShown) announce(`${title}: ${seconds(since)}`)
}

const node = (title, script, ...args) => phase(title, process.execPath, [at(script), ...args])
const bundle = () => node('bundling the command line', 'scripts/build-cli.mjs')
const kernels = (...args) => node('compiling the kernels for this CPU (C)', 'scripts/build-kernels.mjs', ...args)
const studio = () => node('building the studio', 'scripts/build-studio.mjs')

async function build() {
  if (!existsSync(at('dist/cli/lockstep.cjs')))
    announce(`building, once (about ${starts ? 30 : 90} s on two cores; later builds take what changed)`)
  if (age('node_modules/.package-lock.json') < age('package-lock.json'))
    await phase('installing packages', 'npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'])
  if (process.argv.includes('--packages')) return
  if (starts) {
    const modules = async () => {
      await node('removing types', 'scripts/build-modules.mjs')
      await bundle()
    }
    await Promise.all([modules(), kernels('--native')])
    if (age('dist/studio/page/index.html') > 0) await studio()
  } else {
    const compile = async () => {
      await node('compiling and checking types (tsc)', 'node_modules/typescript/bin/tsc', '-b')
      await bundle()
      await studio()
    }
    await Promise.all([compile(), kernels()])
  }
}

await build()
if (announced) announce(`done in ${seconds(started)}`)
