// Runs the compiled test files by name: Node 20 given a folder of .ts files runs nothing and exits 0.
// Usage: npm test [-- word ...]   only files whose name contains one of the words
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const words = process.argv.slice(2)
// Listed from the sources, so that the compiled leftover of a deleted test does not run.
const files = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  .filter(file => file.endsWith('.test.ts') && (words.length === 0 || words.some(word => file.includes(word))))
  .map(file => join(root, 'dist/test', file.replace(/\.ts$/, '.js')))
  .sort()
if (files.length === 0 || !files.every(existsSync)) {
  console.error(`test: no compiled test files match ${words.join(' ') || 'test/**/*.test.ts'}`)
  process.exit(1)
}
// One file at a time is what Node takes on two cores, and most files need but one of them.
const [major, minor] = process.versions.node.split('.').map(Number)
const atOnce = major > 20 || minor >= 10 ? [`--test-concurrency=${Math.max(2, availableParallelism() - 1)}`] : []
const { status } = spawnSync(process.execPath, ['--test', ...atOnce, ...files], { cwd: root, stdio: 'inherit' })
process.exit(status ?? 1)
