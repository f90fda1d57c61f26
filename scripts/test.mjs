// Runs the compiled test files by name: Node 20 given a folder of .ts files runs nothing and exits 0.
// Usage: npm test [-- word ...]   only files whose name contains one of the words
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import process from 'node:process'
import { run } from 'node:test'
import { spec, tap } from 'node:test/reporters'
import { fileURLToPath } from 'node:url'

/** Files that take longer than 10 s or change their process, longest first: each has a process of its own. */
const apart = `
  emit-conformance emit-launch calibrate estimate-plans engine plan-cli estimate-simulate planner mutations browser emit grid examples
  random-jobs installed emit-checkpoint resume train rehearse planner-refusals emit-faults data-parallel add-a-fact
  progress search text race`
  .trim()
  .split(/\s+/)
  .map(name => `${name}.test.ts`)
/** The others run so many to a process: what one has made the compiler of JavaScript learn, the next need not teach it again. */
const together = 12

const root = dirname(dirname(fileURLToPath(import.meta.url)))
process.chdir(root)
await import('./build-kernels.mjs') // kernels older than their sources would compute something else
const words = process.argv.slice(2)
// Listed from the sources, so that the compiled leftover of a deleted test does not run.
const sources = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.test.ts') && (words.length === 0 || words.some(word => file.includes(word))))
  .sort()
const compiled = file => join(root, 'dist/test', file.replace(/\.ts$/, '.js'))
if (sources.length === 0 || !sources.map(compiled).every(existsSync)) {
  console.error(`test: no compiled test files match ${words.join(' ') || 'test/**/*.test.ts'}`)
  process.exit(1)
}

/** Files that import some of the others, every n-th: neighbours by name take similar time. */
function batches(others) {
  const folder = join(root, 'dist/test-batches')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  const count = Math.ceil(others.length / together)
  return Array.from({ length: count }, (_, n) => {
    const file = join(folder, `${n + 1}.mjs`)
    const imports = others
      .filter((_, i) => i % count === n)
      .map(each => `await import(${JSON.stringify(compiled(each))})\n`)
    writeFileSync(file, imports.join(''))
    return file
  })
}
const others = sources.filter(file => !apart.includes(file))
const alone = apart.filter(file => sources.includes(file)).map(compiled)
const files = words.length > 0 ? [...alone, ...others.map(compiled)] : [...alone, ...batches(others)]
// Files run side by side, so none of them needs threads to collect its garbage: a quarter of the time of many.
process.execArgv.push('--single-threaded-gc', '--max-semi-space-size=64', '--always-sparkplug') // which each of them is started with
// Some files wait more than they compute: with one file more than there are cores, these are never idle.
run({ files, concurrency: availableParallelism() + 1 })
  .on('test:fail', () => {
    process.exitCode = 1
  })
  .compose(process.stdout.isTTY ? spec : tap)
  .pipe(process.stdout)
