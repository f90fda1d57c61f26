/**
 * What went wrong in a step whose loss or gradients are not finite: it is run again, twice, and every result of it looked at. The
 * same bits both times: the data or the program. Other bits, or a step that is finite now: the hardware.
 */
import { coordinatesOf, type Rank, type Scalars, type Spoken } from '../base/index.js'
import {
  type BadNumber,
  firstFault,
  type InstrPlace,
  type Replay,
  type StepData,
  type StepResult,
} from '../engine/index.js'
import { clause, found, type HealthEvent } from '../health/index.js'
import type { Program } from '../ir/index.js'
import { flopsPerToken } from '../model/index.js'
import type { Session } from './session.js'

type Stepped = Pick<Session, 'job' | 'program' | 'kernels' | 'trainer'>

/** Of what step this is, whoever asked knows. */
const facts = { step: 0, severity: 'warning', numbers: {} } as const

/** What a step that was not finite shows when it is run again; undefined where nobody could look. */
export async function whatBroke(
  parts: Stepped,
  data: StepData,
  before: Scalars<number>,
): Promise<HealthEvent | undefined> {
  const { program, trainer } = parts
  const said = trainer.replay ? saidOf(program, await trainer.replay(data)) : interpreted(parts, data, before)
  return said && { ...said, step: data.step + 1 }
}

export const isNotFinite = ({ loss, normSquared }: Pick<StepResult, 'loss' | 'normSquared'>): boolean =>
  !Number.isFinite(loss) || !Number.isFinite(normSquared)

function saidOf(program: Program, { before, bad, differs }: Replay): HealthEvent {
  if (before) {
    const { parameter, state, ranks } = before
    return found(
      'notFinite/before',
      { ...facts, ...(ranks.length === 1 && { rank: ranks[0] }) },
      { what: stateOf(parameter, state), ranks: ranks.join(', ') },
    )
  }
  if (differs)
    return found('notFinite/differs', { ...facts, ...placed(program, differs) }, placeWords(program, differs))
  return bad ? made(program, bad) : found('notFinite/chance', facts)
}

/** A parameter, or what the optimizer keeps of it. */
export const stateOf = (parameter: string, state: string | undefined) =>
  state === undefined ? parameter : clause('.state', { state, parameter })

/** Where a step first has other bits than before. */
export const placeWords = (program: Program, differs: InstrPlace) => ({
  where: whereOf(program, differs),
  rank: on(program, differs.rank),
})

const placed = (program: Program, place: InstrPlace) => ({ rank: place.rank, where: whereOf(program, place) })

/** `the first such number is made in layers.1 (layers.F) of microbatch 0 on rank 2 (dp 1 pp 0): gelu gives Infinity in %y, of %x up to 3e38` */
function made(program: Program, bad: BadNumber): HealthEvent {
  const { rank, call, instr, made, of } = bad
  const numbers = Object.fromEntries(of.map(({ ref, most }) => [ref, Number.isFinite(most) ? most : null]))
  const seen = { ...facts, ...placed(program, bad), numbers }
  const words = {
    microbatch: call.microbatch < 0 ? '' : clause('.microbatch', { microbatch: call.microbatch }),
    ...{ rank: on(program, rank), value: made.value },
  }
  if (instr.kind === 'load') return found('notFinite/data', seen, { ...words, input: instr.input })
  const operands = of.map(({ ref, most }) => clause('.operand', { operand: ref, most: Number(most.toPrecision(3)) }))
  return found('notFinite/made', seen, {
    ...words,
    ...{ where: blockOf(program, bad), op: instr.kind, result: made.ref },
    operands: of.length === 0 ? '' : clause('.operands', { operands: { joint: ',', of: operands } }),
  })
}

const blockOf = ({ blocks }: Program, { call }: InstrPlace): string =>
  call.block < 0 ? call.segment : `${blocks[call.block].name} (${call.segment})`

/** `layers.1 (layers.F) contract, microbatch 0` */
function whereOf(program: Program, place: InstrPlace): string | Spoken {
  const where = `${blockOf(program, place)} ${place.instr.kind}`
  const { microbatch } = place.call
  return microbatch < 0 ? where : clause('.in-microbatch', { where, microbatch })
}

/** ` on rank 2 (dp 1 pp 0)` */
function on({ mesh }: Program, rank: Rank): Spoken {
  const several = Object.entries(coordinatesOf(mesh, rank)).filter(([axis]) =>
    mesh.axes.some(({ name, size }) => name === axis && size > 1),
  )
  const at = several.length > 0 ? ` (${several.map(([axis, at]) => `${axis} ${at}`).join(' ')})` : ''
  return clause('.rank', { rank: `${rank}${at}` })
}

/** What the interpreter does in about ten seconds. */
const mostFlops = 3e8

/** Of a job of the interpreter's, where it is small enough. */
function interpreted(
  { job, program, trainer }: Stepped,
  data: StepData,
  before: Scalars<number>,
): HealthEvent | undefined {
  const { globalBatch, seq, seed } = job.training
  if (flopsPerToken(job.model, seq) * globalBatch * seq > mostFlops) return undefined
  for (const { name } of program.params)
    if (!trainer.parameter(name).every(Number.isFinite)) return found('notFinite/parameter', facts, { parameter: name })
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
