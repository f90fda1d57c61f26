/**
 * Writes the conformance jobs of test/emit-cases.ts, with what the reference computes of each, for nccl.py to run where there is
 * a GPU: node bench/gpu/nccl.mjs FOLDER (after `npx tsc -b`). JOBS=20 draws more of them.
 */
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const [out] = process.argv.slice(2)
if (out === undefined) {
  console.error('usage: node bench/gpu/nccl.mjs FOLDER')
  process.exit(2)
}
const from = path => import(new URL(`../../dist/test/${path}`, import.meta.url).href)
const { emitCases, isHalf, precisionsOf, ranksOf, steps } = await from('emit-cases.js')
const { emittedFiles, expectedOf, programsOf, writeFiles } = await from('emitted.js')
const { jobOf } = await from('jobs.js')

/** What the reference says, as emit_many.py says it. */
function expected(job, programs, precision) {
  const said = expectedOf(job, steps, precision, programs)
  const records = said.losses.map((loss, i) => ({ loss, gradientNorm: said.norms[i] }))
  const parameters = Object.fromEntries(said.names.map(name => [name, Array.from(said.parameter(name))]))
  return { records, heldOut: said.heldOut, parameters }
}

const list = []
for (const [i, { job, title }] of emitCases.entries()) {
  const programs = programsOf(job)
  const files = Object.entries(emittedFiles(job, programs)).filter(([name]) => i === 0 || !name.startsWith('runtime/'))
  const wanted = { f64: expected(job, programs, 'f64'), plan: expected(job, programs, isHalf(job) ? 'f32' : 'f64') }
  const folder = `job${i}`
  writeFiles(join(out, folder), { ...Object.fromEntries(files), 'expected.json': JSON.stringify(wanted) })
  list.push({ folder, title, ranks: ranksOf(job), steps, precisions: precisionsOf(job), half: isHalf(job) })
}
// What is killed and stopped.
writeFiles(join(out, 'faults'), emittedFiles(jobOf('gpt', { tp: 2 }, { steps: 100_000 })))
writeFiles(out, { 'list.json': JSON.stringify(list) })
console.log(`${list.length} jobs in ${out}; there: python ${fileURLToPath(new URL('nccl.py', import.meta.url))} ${out}`)
