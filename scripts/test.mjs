// Runs the compiled test files by name: Node 20 given a folder of .ts files runs nothing and exits 0.
// Usage: npm test [-- word ...]   only files whose name contains one of the words
import { existsSync, readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import process from 'node:process'
import { run } from 'node:test'
import { spec, tap } from 'node:test/reporters'
import { fileURLToPath } from 'node:url'

/** Files that take longer than 10 s, longest first: one that starts last would run alone. The others follow by name. */
const longest = `
  emit-conformance emit-launch calibrate estimate-plans engine plan-cli estimate-simulate planner mutations browser emit grid examples
  random-jobs installed emit-checkpoint resume train rehearse planner-refusals emit-faults data-parallel add-a-fact
  progress search text`
  .trim()
  .split(/\s+/)
  .map(name => `${name}.test.ts`)

const root = dirname(dirname(fileURLToPath(import.meta.url)))
process.chdir(root)
const words = process.argv.slice(2)
const place = file => (longest.includes(file) ? longest.indexOf(file) : longest.length)
// Listed from the sources, so that the compiled leftover of a deleted test does not run.
const files = readdirSync('test', { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.test.ts') && (words.length === 0 || words.some(word => file.includes(word))))
  .sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1))
  .map(file => join(root, 'dist/test', file.replace(/\.ts$/, '.js')))
if (files.length === 0 || !files.every(existsSync)) {
  console.error(`test: no compiled test files match ${words.join(' ') || 'test/**/*.test.ts'}`)
  process.exit(1)
}
// Files run side by side, so none of them needs threads to collect its garbage: a quarter of the time of many.
process.execArgv.push('--single-threaded-gc', '--max-semi-space-size=64') // which each of them is started with
// Some files wait more than they compute: with one file more than there are cores, these are never idle.
run({ files, concurrency: availableParallelism() + 1 })
  .on('test:fail', () => {
    process.exitCode = 1
  })
  .compose(process.stdout.isTTY ? spec : tap)
  .pipe(process.stdout)
