/**
 * What trains: a runner of some kernels with the program of a job, and one more with its evaluation program, which is
 * given the parameters before it judges. Commands know this and nothing of engines; an engine joins by one line of
 * `starts`.
 */
import { error, ProblemsError, type Rank } from '../base/index.js'
import type { DType, Kind, Program } from '../ir/index.js'
import type { Span } from '../trace/index.js'
import { nativeMissing } from './native/kernels/kernels.js'
import { startOn } from './native/run/runner.js'
import { startReference } from './reference/engine.js'
import type { StepData } from './reference/index.js'

export interface StepOutcome {
  /** The mean over `count` labels (or elements) of the global batch. */
  readonly loss: number
  readonly count: number
  readonly normSquared: number
}

/** Where a rank keeps something: an index into the frames of its stream. */
export interface Held {
  readonly rank: Rank
  readonly frame: number
  readonly dtype: DType
}

/** A program on all its ranks. */
export interface Runner {
  /** For people: which kernels, how many ranks, where. */
  readonly description: string
  /** Ranks run beside each other; if not, how long each waits says nothing. */
  readonly concurrent: boolean
  step(data: StepData): StepOutcome | Promise<StepOutcome>
  /** Whole tensors, row-major over the parameter's dims. */
  parameter(name: string): ArrayLike<number>
  setParameter(name: string, values: ArrayLike<number>): void
  /** What lives in a frame from step to step, in the order of the parameter's dims, and maybe more behind it. Not a copy. */
  held(at: Held): Float32Array | Float64Array
  /** Puts numbers there, rounded as they are kept. */
  hold(at: Held, values: Float32Array | Float64Array): void
  /** Per rank, the greatest sum of live bytes of each kind so far. */
  readonly peaks: readonly Readonly<Record<Kind, number>>[]
  /** Of the last step, where the engine was asked to measure. Seconds from the engine's start. */
  readonly spans: readonly Span[]
  stop(): void | Promise<void>
}

export interface StartOptions {
  readonly seed: number
  /** Write down when each instruction begins and ends. */
  readonly measure: boolean
  /** Where the flight record of a failed step goes. */
  readonly flightRecord?: string
}

export type Start = (program: Program, options: StartOptions) => Promise<Runner>

export const kernelNames = ['native', 'vectors', 'wasm', 'reference'] as const
export type KernelName = (typeof kernelNames)[number]

/** Engines that are there, the fastest first. */
const starts: Partial<Record<KernelName, Start>> = {
  ...(nativeMissing() === undefined ? { native: startOn('native'), vectors: startOn('vectors') } : {}),
  wasm: startOn('wasm'),
  reference: startReference,
}

/** `auto` is the fastest that is there; what is not there is refused by name. */
export function kernelsFor(asked: KernelName | 'auto'): KernelName {
  const name = asked === 'auto' ? kernelNames.find(name => starts[name]) : asked
  if (name && starts[name]) return name
  const there = kernelNames.filter(name => starts[name])
  throw new ProblemsError([
    error('engine/kernels', '', `there are no ${asked} kernels in this build`, `try --kernels ${there.join(' or ')}`),
  ])
}

/** Those that are faster than the definition, as far as they are there. */
export const fastKernels = (): KernelName[] => kernelNames.filter(name => name !== 'reference' && starts[name])

type OfRunner = 'description' | 'concurrent' | 'parameter' | 'held' | 'hold' | 'peaks' | 'spans'

export interface Trainer extends Pick<Runner, OfRunner> {
  step(data: StepData): Promise<StepOutcome>
  /** The mean loss over all labels of the batches, with the parameters of now. Changes nothing. */
  evaluate(batches: readonly StepData['inputs'][]): Promise<{ readonly loss: number; readonly count: number }>
  stop(): Promise<void>
}

export interface TrainerOptions extends StartOptions {
  readonly kernels: KernelName | 'auto'
  readonly evaluation?: Program
}

export async function startTrainer(program: Program, options: TrainerOptions): Promise<Trainer> {
  const start = starts[kernelsFor(options.kernels)]!
  const engine = await start(program, options)
  let judge: Runner | undefined
  const ready = async (): Promise<Runner> => {
    if (!options.evaluation) throw new Error('this trainer was started without an evaluation program')
    judge ??= await start(options.evaluation, { ...options, measure: false })
    for (const { name } of program.params) judge.setParameter(name, engine.parameter(name))
    return judge
  }
  return {
    description: engine.description,
    concurrent: engine.concurrent,
    step: async data => engine.step(data),
    async evaluate(batches) {
      const judge = await ready()
      let [sum, count] = [0, 0]
      for (const inputs of batches) {
        const outcome = await judge.step({ inputs, lr: Number.NaN, step: 0 })
        sum += outcome.loss * outcome.count
        count += outcome.count
      }
      return { loss: sum / count, count }
    },
    parameter: name => engine.parameter(name),
    held: at => engine.held(at),
    hold: (at, values) => engine.hold(at, values),
    get peaks() {
      return engine.peaks
    },
    get spans() {
      return engine.spans
    },
    async stop() {
      await engine.stop()
      await judge?.stop()
    },
  }
}
