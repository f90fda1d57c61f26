// Runs the compiled test files by name: Node 20 given a folder of .ts files runs nothing and exits 0.
// Usage: npm test [-- word ...]            only files whose name contains one of the words
//        npm run test:rest [-- word ...]   the cases of conformance families that npm test leaves out (test/families.ts)
//        npm run test:fast [-- word ...]   for the inner loop: no threads, browser or torch, one case of each family
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { basename, dirname, join } from 'node:path'
import process from 'node:process'
import { run } from 'node:test'
import { spec, tap } from 'node:test/reporters'
import { fileURLToPath } from 'node:url'
import { report } from './families.mjs'

const filesOf = names =>
  names
    .trim()
    .split(/\s+/)
    .map(name => `${name}.test.ts`)

/** Files that start programs or change their process, longest first, those of the rest counted: each has a process of its own. */
const apart = filesOf(`
  emit-conformance gpu-paths emit-launch engine emit docs studio examples emit-checkpoint studio-links studio-learn resume studio-run browser
  studio-static emit-faults studio-plan studio-claims installed dry-run train studio-exercises calibrate add-a-fact studio-program
  studio-server studio-timeline studio-clinic progress race latest-run completion`)
/** Files that are left to `npm run test:rest` as a whole: averages over many plans, emitted runs, and pages used as a reader would. */
const whole = filesOf(`
  estimate-kinds estimate-memory-own estimate-optimizers estimate-plans emit-elastic emit-guard emit-looking emit-spikes
  studio-claims studio-clinic studio-exercises studio-learn studio-links studio-plan studio-program studio-run studio-static
  studio-timeline`)
/**
 * The others share a few processes, neighbours by name: what one has made the compiler of JavaScript learn, the next need not
 * teach it again, which saves a third of their time.
 */
const batches = 7
/**
 * What the slower files take, in seconds of processor time, roughly; all others take fewer than 4. Processes are balanced by it, and
 * `npm run test:fast` leaves these files out.
 */
const seconds = Object.fromEntries(
  `grid 50, mutations 40, planner-refusals 35, plan-cli 35, planner 30, estimate-memory-own 30, estimate-simulate 27,
  experts-engine 26, differences 25, experts 22, data-parallel 21, precision 21, torch-models 21, documents-engine 20,
  estimate-plans 20, random-jobs 20, search 20, golden 19, documents 18, latent 17, text 17, printable 16, ring 16,
  attack-engine 15, collectives-engine 15, kernels 15, outline 14, api 14, cli 14, estimate-kinds 13, context 12, evaluate 12,
  plan-words 12, claims 20, replan 9, experts-fixtures 8, use-cli 7, structure 7, damage 6, ring-fixtures 6, keep-going-cli 6,
  advice 5, replicas 5, untrusted 5, global-options 4, llama3 4, out-folder 4, search-extras 4, search-space 4, experts-steps 4,
  memory 4, live 3, large 3, schedule-auto 3, words 3, simulate-cli 4, schedule-cli 3, pictures 4`
    .split(/,\s+/)
    .map(entry => entry.split(' '))
    .map(([name, cost]) => [`${name}.test.ts`, Number(cost)]),
)

const root = dirname(dirname(fileURLToPath(import.meta.url)))
process.chdir(root)
await import('./build-kernels.mjs') // kernels older than their sources would compute something else
await import('./build-studio.mjs') // as an old page would show something else
const modes = { '--rest': 'rest', '--fast': 'fast' }
const mode = modes[process.argv[2]]
if (mode) process.env.LOCKSTEP_TESTS = mode
const words = process.argv.slice(mode ? 3 : 2)

// What each case of a family did, added up at the end.
const records = join(root, 'dist/test-records', words.length > 0 ? 'words' : (mode ?? 'test'))
rmSync(records, { recursive: true, force: true })
mkdirSync(records, { recursive: true })
process.env.LOCKSTEP_RECORDS = records

const textOf = file => readFileSync(join('test', file), 'utf8')
/** Whether the rest has something of a file. */
const isShared = file => whole.includes(file) || textOf(file).includes("'./families.js'")
const heavy =
  /node:(child_process|worker_threads)|playwright|engine\/native|startEngine|startSession|new Pool|fastKernels|findPython/
const helpers = new Set(readdirSync('test').filter(file => file.endsWith('.ts')))
/** Whether a file, or a helper that it imports, starts threads, programs or a browser. */
function startsSomething(file, seen = new Set()) {
  if (seen.has(file)) return false
  seen.add(file)
  const text = textOf(file)
  const imported = [...text.matchAll(/from '\.\/([\w-]+)\.js'/g)].map(([, name]) => `${name}.ts`)
  return heavy.test(text) || imported.some(name => helpers.has(name) && startsSomething(name, seen))
}
const isFast = file => !apart.includes(file) && !whole.includes(file) && !(file in seconds) && !startsSomething(file)
const isAsked = { rest: isShared, fast: isFast }[mode] ?? (file => words.length > 0 || !whole.includes(file))
// Listed from the sources, so that the compiled leftover of a deleted test does not run.
const sources = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.test.ts') && (words.length === 0 || words.some(word => file.includes(word))))
  .filter(isAsked)
  .sort()
const compiled = file => join(root, 'dist/test', file.replace(/\.ts$/, '.js'))
if (sources.length === 0 || !sources.map(compiled).every(existsSync)) {
  console.error(`test: no compiled test files match ${words.join(' ') || 'test/**/*.test.ts'}`)
  process.exit(1)
}

/** Files that import some of the others, one after the other. */
function shared(others) {
  const folder = join(root, 'dist/test-batches')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  const costOf = file => seconds[file] ?? 2
  const whole = others.reduce((sum, file) => sum + costOf(file), 0)
  const processes = mode === 'fast' ? availableParallelism() : batches
  const parts = Array.from({ length: processes }, () => [])
  let before = 0
  for (const file of others) {
    parts[Math.floor((before / whole) * processes)].push(file)
    before += costOf(file)
  }
  return parts.map((files, n) => {
    const imports = files.map(file => `await import(${JSON.stringify(compiled(file))})`)
    const path = join(folder, `${n + 1}.mjs`)
    // A test begins at once where none is under way, even before the rest of its file was run.
    const lines = [
      `import { test } from 'node:test'`,
      'let loaded',
      `test('${files.length} files are loaded', () => new Promise(resolve => { loaded = resolve }))`,
      ...imports,
      'loaded()',
    ]
    writeFileSync(path, `${lines.join('\n')}\n`)
    return path
  })
}
// What is soon over first: a slip is seen while the rest still runs.
const together = sources.filter(file => !apart.includes(file))
const others = mode === 'fast' ? together : [...together.filter(isFast), ...together.filter(file => !isFast(file))]
const alone = apart.filter(file => sources.includes(file)).map(compiled)
const [longest, shorter] = [alone.slice(0, 2), alone.slice(2)]
const files = words.length > 0 ? [...alone, ...others.map(compiled)] : [...longest, ...shared(others), ...shorter]
// Files run side by side, so none of them needs threads that collect its garbage, or that compile again and again what is soon over:
// together these are half of the time of many. Node 22 has no such budget.
const budget = process.version.startsWith('v20.') ? ['--interrupt-budget=2000000'] : []
process.execArgv.push('--single-threaded-gc', '--max-semi-space-size=64', '--always-sparkplug', ...budget)
// Some files wait more than they compute: with one file more than there are cores, these are never idle.
const stream = run({ files, concurrency: availableParallelism() + (mode === 'fast' ? 0 : 1) })
stream
  .on('test:fail', () => {
    process.exitCode = 1
  })
  // Results are printed in the order of files; that a file failed is said as soon as it ends.
  .on('test:complete', ({ name, details }) => {
    if (details.error !== undefined && files.includes(name)) console.error(`failed: ${basename(name)}`)
  })
  .on('end', () => {
    const { lines, isGood } = report([records])
    if (!isGood) process.exitCode = 1
    // After the summary of the reporter.
    process.once('exit', () => console.log(`\n${lines.join('\n')}`))
  })
  .compose(process.stdout.isTTY ? spec : tap)
  .pipe(process.stdout)
