/**
 * What went wrong in a step whose loss or gradients are not finite: it is run again, twice, and every result of it looked at. The
 * same bits both times: the data or the program. Other bits, or a step that is finite now: the hardware.
 */
import { coordinatesOf, type Rank, type Scalars } from '../base/index.js'
import {
  type BadNumber,
  firstFault,
  type InstrPlace,
  type Replay,
  type StepData,
  type StepResult,
} from '../engine/index.js'
import type { HealthEvent } from '../health/index.js'
import type { Program } from '../ir/index.js'
import { flopsPerToken } from '../model/index.js'
import type { Session } from './session.js'

type Stepped = Pick<Session, 'job' | 'program' | 'kernels' | 'trainer'>
type Said = Pick<HealthEvent, 'rank' | 'where' | 'message' | 'advice' | 'numbers'>

/** What a step that was not finite shows when it is run again; undefined where nobody could look. */
export async function whatBroke(
  parts: Stepped,
  data: StepData,
  before: Scalars<number>,
): Promise<HealthEvent | undefined> {
  const { program, trainer } = parts
  const said = trainer.replay ? saidOf(program, await trainer.replay(data)) : interpreted(parts, data, before)
  return said && { step: data.step + 1, event: 'notFinite', severity: 'warning', ...said }
}

export const isNotFinite = ({ loss, normSquared }: Pick<StepResult, 'loss' | 'normSquared'>): boolean =>
  !Number.isFinite(loss) || !Number.isFinite(normSquared)

function saidOf(program: Program, { before, bad, differs }: Replay): Said | undefined {
  if (before) {
    const { parameter, state, ranks } = before
    const what = state === undefined ? parameter : `the ${state} of ${parameter}`
    return {
      ...(ranks.length === 1 && { rank: ranks[0] }),
      message: `${what} is not finite before the step, on rank ${ranks.join(', ')}`,
      numbers: {},
      advice: 'resume from a checkpoint before it',
    }
  }
  if (differs) return { ...placed(program, differs), message: unlike(program, differs), numbers: {}, advice: replace }
  return bad ? made(program, bad) : { message: passed, numbers: {}, advice: replace }
}

const replace = 'suspect the machine of that rank: memory or a core that fails now and then'
const passed = 'run again twice, the step is finite: what broke it was not the data, nor the program'

export const unlike = (program: Program, differs: InstrPlace): string =>
  `run twice from the same state, the step has other bits the second time: first in ${whereOf(program, differs)}${on(program, differs.rank)}`

const placed = (program: Program, place: InstrPlace) => ({ rank: place.rank, where: whereOf(program, place) })

function made(program: Program, bad: BadNumber): Said {
  const { instr, of } = bad
  const numbers = Object.fromEntries(of.map(({ ref, most }) => [ref, Number.isFinite(most) ? most : null]))
  const advice =
    instr.kind === 'load'
      ? 'look at the data of this step'
      : 'try a smaller lr, a warm-up or clip, or look at the data of this step'
  return { ...placed(program, bad), message: told(program, bad), numbers, advice }
}

/** `layers.1 (layers.F) contract, microbatch 0` */
function whereOf({ blocks }: Program, { call, instr }: InstrPlace): string {
  const where = call.block < 0 ? call.segment : `${blocks[call.block].name} (${call.segment})`
  return `${where} ${instr.kind}${call.microbatch < 0 ? '' : `, microbatch ${call.microbatch}`}`
}

/** ` on rank 2 (dp 1 pp 0)` */
function on({ mesh }: Program, rank: Rank): string {
  const several = Object.entries(coordinatesOf(mesh, rank)).filter(([axis]) =>
    mesh.axes.some(({ name, size }) => name === axis && size > 1),
  )
  return ` on rank ${rank}${several.length > 0 ? ` (${several.map(([axis, at]) => `${axis} ${at}`).join(' ')})` : ''}`
}

/** `layers.1 gelu %y of microbatch 0 on rank 2 (dp 1 pp 0) gives Infinity, of operands up to 3e38`. */
function told(program: Program, { rank, call, instr, made, of }: BadNumber): string {
  const where = call.block < 0 ? call.segment : `${program.blocks[call.block].name} (${call.segment})`
  const when = call.microbatch < 0 ? '' : ` of microbatch ${call.microbatch}`
  if (instr.kind === 'load') return `the data has it: ${instr.input}${when}${on(program, rank)} holds ${made.value}`
  const operands = of.map(({ ref, most }) => `%${ref} up to ${Number(most.toPrecision(3))}`).join(', ')
  return `the first such number is made in ${where}${when}${on(program, rank)}: ${instr.kind} gives ${made.value} in %${made.ref}${operands === '' ? '' : `, of ${operands}`}`
}

/** What the interpreter does in about ten seconds. */
const mostFlops = 3e8

/** Of a job of the interpreter's, where it is small enough. */
function interpreted({ job, program, trainer }: Stepped, data: StepData, before: Scalars<number>): Said | undefined {
  const { globalBatch, seq, seed } = job.training
  if (flopsPerToken(job.model, seq) * globalBatch * seq > mostFlops) return undefined
  for (const { name } of program.params)
    if (!trainer.parameter(name).every(Number.isFinite))
      return { message: `${name} is not finite before the step`, numbers: {} }
  const bad = firstFault(
    program,
    { seed, precision: 'f64' },
    machine => {
      for (const { name } of program.params) machine.setParameter(name, trainer.parameter(name))
      machine.setScalars(before)
    },
    data,
  )
  return bad && made(program, bad)
}
