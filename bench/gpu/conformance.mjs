/**
 * Writes what conformance.py runs, with what the reference computes of it: node bench/gpu/conformance.mjs FOLDER [WORD...]
 * (after `npx tsc -b`). Words leave the jobs that have one of them in their title. JOBS=20 draws more random jobs.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const [out, ...words] = process.argv.slice(2)
if (out === undefined) {
  console.error('usage: node bench/gpu/conformance.mjs FOLDER [WORD...]')
  process.exit(2)
}
const from = path => import(new URL(`../../dist/test/${path}`, import.meta.url).href)
const { gpuJobs, writeGpuFolder } = await from('gpu-jobs.js')
const { emittedFiles, writeFiles } = await from('emitted.js')
const { jobOf } = await from('jobs.js')
const jobs = gpuJobs.filter(
  ({ title, family }) => words.length === 0 || words.some(word => `${family} ${title}`.includes(word)),
)
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
// What is stopped and killed.
writeFiles(join(out, 'faults'), emittedFiles(jobOf('gpt', { tp: 2 }, { steps: 100_000 })))
let written = 0
writeGpuFolder(out, jobs, commit, title => console.log(`${++written} of ${jobs.length}: ${title}`))
console.log(`there: python ${fileURLToPath(new URL('conformance.py', import.meta.url))} ${out}`)
