/** What went wrong in a step whose gradients are not finite, where the job is small enough to run the step again and look. */
import { coordinatesOf, type Scalars } from '../base/index.js'
import { type Fault, firstFault, type StepData } from '../engine/index.js'
import type { Program } from '../ir/index.js'
import { flopsPerToken } from '../model/index.js'
import type { Session } from './session.js'

/** What the interpreter does in about ten seconds. */
const mostFlops = 3e8

/** The first number that is not finite and what made it, in words; undefined where nobody looked, or all of them are finite. */
export function whatBroke(
  { job, program, kernels, trainer }: Pick<Session, 'job' | 'program' | 'kernels' | 'trainer'>,
  data: StepData,
  before: Scalars<number>,
): string | undefined {
  const { globalBatch, seq, seed } = job.training
  if (flopsPerToken(job.model, seq) * globalBatch * seq > mostFlops) return undefined
  for (const { name } of program.params)
    if (!trainer.parameter(name).every(Number.isFinite)) return `${name} is not finite before the step`
  const precision = kernels === 'reference' ? 'f64' : 'f32'
  const fault = firstFault(
    program,
    { seed, precision },
    machine => {
      for (const { name } of program.params) machine.setParameter(name, trainer.parameter(name))
      machine.setScalars(before)
    },
    data,
  )
  return fault && told(program, fault)
}

/** `layers.1 gelu %y of microbatch 0 on rank 2 (dp 1 pp 0) gives Infinity, of operands up to 3e38`. */
function told({ mesh, blocks }: Program, { rank, call, instr, made, of }: Fault): string {
  const where = call.block < 0 ? call.segment : `${blocks[call.block].name} (${call.segment})`
  const when = call.microbatch < 0 ? '' : ` of microbatch ${call.microbatch}`
  const several = Object.entries(coordinatesOf(mesh, rank)).filter(([axis]) =>
    mesh.axes.some(({ name, size }) => name === axis && size > 1),
  )
  const place = several.length > 0 ? ` (${several.map(([axis, at]) => `${axis} ${at}`).join(' ')})` : ''
  if (instr.kind === 'load') return `the data has it: ${instr.input}${when} on rank ${rank}${place} holds ${made.value}`
  const operands = of.map(({ ref, most }) => `%${ref} up to ${Number(most.toPrecision(3))}`).join(', ')
  return `the first such number is made in ${where}${when} on rank ${rank}${place}: ${instr.kind} gives ${made.value} in %${made.ref}${operands === '' ? '' : `, of ${operands}`}`
}
