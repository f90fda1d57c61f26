/** lockstep demo: a small 3D-parallel job, compiled, proved and compared with one rank. What `npm start` shows. */
import { worldOf } from '../../base/index.js'
import { compileJob, scheduleOf } from '../../compile/index.js'
import { Job } from '../../plan/index.js'
import { prove } from '../../prove/index.js'
import { draw, timing } from '../../schedule/index.js'
import type { Io } from '../io.js'
import { colorsOf } from '../text/colors.js'
import { withProgress } from '../text/progress.js'
import { paragraph } from './check.js'
import { summarise } from './compile.js'
import { memoryText } from './memory.js'
import { describe } from './verify.js'

const job = Job.parse({
  name: 'demo',
  model: { family: 'llama', layers: 8, embed: 32, heads: 8, kvHeads: 4, ffn: 64, vocab: 64 },
  training: { seq: 32, globalBatch: 16, optimizer: { kind: 'adamw', lr: 3e-4, weightDecay: 0.1 }, clip: 1 },
  plan: {
    dp: 2,
    tp: 2,
    pp: 2,
    zero: 3,
    sequenceParallel: true,
    microbatches: 4,
    schedule: '1f1b',
    recompute: 'selective',
  },
})

export async function demoCommand(options: { json?: boolean }, io: Io): Promise<number> {
  const started = performance.now()
  const compiled = compileJob(job)
  const seconds = (performance.now() - started) / 1000
  const { bold, green, red } = colorsOf(io)
  const title = (text: string) => io.out(`\n${bold(text)}\n`)
  if (!options.json) {
    title('The job')
    io.out(`${paragraph(job)}\n`)
    const { segments, instructions } = summarise(compiled)
    io.out(
      `Compiled in ${seconds.toFixed(2)} s: ${segments} segments of ${instructions} instructions serve all ${worldOf(compiled.mesh)} ranks.\n`,
    )
    title('The schedule (rank | tasks; F forward, B backward, a number for the microbatch)')
    const schedule = scheduleOf(job.plan)
    io.out(`${draw(schedule)}\n`)
    io.out(
      `bubble ${(100 * timing(schedule).bubble).toFixed(0)} % of the time, if forward, input and weight gradient cost the same\n`,
    )
    title('Memory, before anything runs')
    io.out(`${memoryText(compiled)}\n`)
    title('The proof: every law, then 3 steps compared with one rank in f64')
  }
  const verdict = await withProgress(io, watcher =>
    prove({ job, program: compiled }, { steps: 3, full: true, watcher }),
  )
  io.out(options.json ? `${JSON.stringify(verdict, null, 2)}\n` : `${(verdict.ok ? green : red)(describe(verdict))}\n`)
  if (!options.json)
    io.out('\nYour own: write a job file and run  npx lockstep verify job.yaml  (npx lockstep --help lists the rest)\n')
  return verdict.ok ? 0 : 1
}
