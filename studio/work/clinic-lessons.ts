/** The clinic: runs that are ill in the five ways that hurt most, each looked at by whoever can name the cause. */
import {
  clusterOf,
  clusterPrices,
  type Dataset,
  FaultBook,
  type Job,
  memoryProblems,
  type Problem,
  ProblemsError,
  type Program,
  parseFaults,
  parseJob,
  type Session,
  simulate,
  startSession,
  syntheticDataset,
  type Violation,
  verify,
} from 'lockstep'
import { eventWordsZh } from '../text/events.zh.js'
import { type Broken, named } from './broken.js'
import { firstLoss } from './first-loss.js'
import { type Bytes, type JobText, jobOf, peakOf, programOf } from './jobs.js'

export type Zero = 0 | 1 | 2 | 3
export type Recompute = 'none' | 'selective' | 'full'

export interface Fit {
  readonly zero: Zero
  readonly recompute: Recompute
}

export interface Fitting extends Fit {
  /** Bytes of the rank that needs most, and seconds of a step, had it room. */
  readonly arena: number
  readonly step: number
}

export interface MemoryAnswer extends Fitting {
  readonly bytes: Bytes
  readonly capacity: number
  /** In the core's words, where it does not fit. */
  readonly problems: readonly Problem[]
  /** Other plans of the same ranks that fit, fastest first. */
  readonly repairs: readonly Fitting[]
  readonly job: JobText
}

const eight = 'h100'

const memoryJob = ({ zero, recompute }: Fit): JobText => ({
  model: 'llama2-7b',
  training: { seq: 4096, globalBatch: 8 },
  plan: { dp: 8, zero, recompute, precision: 'bf16' },
})

function fittingOf(fit: Fit): Fitting {
  const program = programOf(memoryJob(fit))
  const arena = Math.max(...program.streams.map(stream => stream.arena))
  return { ...fit, arena, step: simulate(program, clusterPrices(program, clusterOf(eight, 8)), { watch: [] }).step }
}

/** What one may try: a stage further, a policy further, both. */
const others: readonly Fit[] = [
  { zero: 1, recompute: 'none' },
  { zero: 1, recompute: 'full' },
  { zero: 2, recompute: 'none' },
  { zero: 3, recompute: 'none' },
]

/** States alone may be too much, which is known without compiling; else the compiled peak tells. */
function problemsOn(deviceMemory: number, text: JobText, program: Program): readonly Problem[] {
  const { job, problems } = parseJob(JSON.stringify({ ...text, plan: { ...text.plan, deviceMemory } }))
  return job ? memoryProblems(program, job) : problems
}

export function memory(fit: Fit): MemoryAnswer {
  const job = memoryJob(fit)
  const capacity = clusterOf(eight, 8).device.memory
  const program = programOf(job)
  const problems = problemsOn(capacity, job, program)
  const repairs = problems.length > 0 ? others.map(fittingOf).filter(({ arena }) => arena <= capacity) : []
  return {
    ...{ ...fittingOf(fit), bytes: peakOf(program), capacity, job },
    problems,
    repairs: repairs.sort((a, b) => a.step - b.step),
  }
}

export interface Lived {
  readonly losses: readonly number[]
  /** What the engine said of a number that is not finite. */
  readonly found?: {
    readonly step: number
    readonly where: string
    readonly en: readonly string[]
    readonly zh: readonly string[]
  }
  /** What ended the run before its last step. */
  readonly ended?: string
}

/** Threads of the page if it may have them, else the interpreter. */
interface Kernels {
  readonly threads: boolean
}

const smallJobOf = ({ lr }: { readonly lr: number }): JobText => ({
  model: 'mlp-tiny',
  training: { seq: 4, globalBatch: 8, steps: 12, evalBatches: 0, optimizer: { kind: 'adamw', lr } },
  plan: { dp: 2 },
})

/** The job, and what its first step loses in f64. */
export function beginning({ lr }: { readonly lr: number }): { readonly job: JobText; readonly loss: number } {
  const job = smallJobOf({ lr })
  return { job, loss: firstLoss(job) }
}

export const diverge = ({ lr, threads }: Kernels & { readonly lr: number }): Promise<Lived> =>
  lived(smallJobOf({ lr }), [], threads)

const pipeJob: JobText = {
  model: 'gpt-tiny',
  training: { seq: 8, globalBatch: 8, steps: 4, evalBatches: 0 },
  plan: { pp: 2, microbatches: 2 },
}

/** A message of the second step never comes. */
export const hang = (_: object): Promise<Lived> => lived(pipeJob, ['lose:rank=0,step=2'], true)

/** Seconds after which a rank that waits is not waited for. */
const patience = 2

function datasetOf({ model, training: { seq, seed } }: Job): Dataset {
  const shape = 'vocab' in model ? { vocab: model.vocab } : { embed: model.embed }
  return syntheticDataset({ seq, ...shape }, seed)
}

async function lived(text: JobText, faults: readonly string[], threads: boolean): Promise<Lived> {
  const job = jobOf(text)
  const losses: number[] = []
  let found: Lived['found']
  let session: Session | undefined
  try {
    const book = new FaultBook(parseFaults(faults).faults)
    session = await startSession(job, datasetOf(job), {
      kernels: threads ? 'wasm' : 'reference',
      faults: book,
      timeout: patience,
    })
    while (losses.length < job.training.steps) {
      const { step, loss, events = [] } = await session.step()
      losses.push(loss)
      const event = events.find(({ event }) => event === 'notFinite')
      if (event && !found)
        found = {
          ...{ step, where: event.where ?? '' },
          ...{ en: [event.message, event.advice ?? ''], zh: eventWordsZh(event) },
        }
    }
    return { losses, ...(found && { found }) }
  } catch (error) {
    if (!(error instanceof ProblemsError)) throw error
    return { losses, ...(found && { found }), ended: error.problems.map(({ message }) => message).join('\n') }
  } finally {
    await session?.stop()
  }
}

export interface Named extends Broken {
  /** A segment, or a step of a stream. */
  readonly where: string
}

export interface LawAnswer {
  /** Of the program as it was compiled. */
  readonly before: number
  readonly after: readonly Named[]
  /** What was taken out, as the program prints it. */
  readonly gone: readonly string[]
  readonly job: JobText
}

const namedOf = (violation: Violation): Named => ({
  ...named(violation),
  where: violation.segment ?? `pp ${violation.pipeline}, step ${violation.step}`,
})

const sumJob: JobText = { model: 'mlp-tiny', training: { seq: 4, globalBatch: 8 }, plan: { dp: 2 } }

/** The gradients' all-reduce taken out of the program. */
export function unsummed(_: object): LawAnswer {
  const program = programOf(sumJob)
  const gone: string[] = []
  const segments = Object.entries(program.segments).map(([name, segment]) => {
    if (segment.phase !== 'reduce' || name.startsWith('sum ')) return [name, segment]
    gone.push(
      ...segment.instrs.filter(({ kind }) => kind === 'all-reduce').map(({ kind }) => `${name}: ${kind} over dp`),
    )
    return [name, { ...segment, instrs: segment.instrs.filter(({ kind }) => kind !== 'all-reduce') }]
  })
  return answered(program, { ...program, segments: Object.fromEntries(segments) }, { gone, job: sumJob })
}

/** The sends of the first stage taken out. */
export function unsent(_: object): LawAnswer {
  const program = programOf(pipeJob)
  const [first, ...rest] = program.streams
  const gone = first!.steps.flatMap(step => (step.kind === 'send' ? [`send ${step.tag} to=${step.peer}`] : []))
  const stream = { ...first!, steps: first!.steps.filter(({ kind }) => kind !== 'send') }
  return answered(program, { ...program, streams: [stream, ...rest] }, { gone, job: pipeJob })
}

const answered = (program: Program, ill: Program, rest: Pick<LawAnswer, 'gone' | 'job'>): LawAnswer => ({
  before: verify(program).length,
  after: verify(ill).map(namedOf),
  ...rest,
})

export interface SlowInput {
  readonly slow: number
  readonly layers: string
}

export interface Stage {
  readonly compute: number
  readonly waiting: number
  readonly talking: number
  readonly rest: number
}

export interface SlowAnswer {
  readonly even: number
  readonly step: number
  readonly stages: readonly Stage[]
  readonly job: JobText
}

const slowJob = (layers: string): JobText => ({
  model: 'llama3-8b',
  training: { seq: 8192, globalBatch: 32 },
  plan: {
    ...{ dp: 2, pp: 4, zero: 1, precision: 'bf16', microbatches: 16, recompute: 'selective' },
    ...(layers !== 'even' && { layers: layers.split(',').map(Number) }),
  },
})

/** In the second stage. */
const slowRank = 2

function stepOf(layers: string, slow: number) {
  const program = programOf(slowJob(layers))
  const slowed = new Map(slow > 1 ? [[slowRank, slow] as const] : [])
  return simulate(program, clusterPrices(program, clusterOf(eight, 8)), { slow: slowed, watch: [] })
}

export function waiting({ slow, layers }: SlowInput): SlowAnswer {
  const { step, stages } = stepOf(layers, slow)
  return {
    ...{ even: stepOf('even', 1).step, step, job: slowJob(layers) },
    stages: stages.map(parts => {
      const compute = parts.compute + parts.recompute
      const waiting = parts.bubble + parts.stragglers
      const talking = parts.tp + parts.dp + parts.pp + parts.cp + parts.ep
      return { compute, waiting, talking, rest: step - compute - waiting - talking }
    }),
  }
}
