/**
 * What trains: a runner of some kernels with the program of a job, and one more with its evaluation program, which is
 * given the parameters before it judges. Commands know this and nothing of engines; an engine joins by one line of
 * `starts`.
 */
import { isCodeType, ProblemsError, unwatched } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { type Choices, choicesInOrder } from './choices.js'
import { handOver } from './hand-over.js'
import { type KernelName, kernelNames } from './kernel-names.js'
import type { Replay } from './look.js'
import { type Kernels, nativeMissing } from './native/kernels/kernels.js'
import { startEngine } from './native/run/engine.js'
import { refused } from './native/run/phrases.js'
import type { Pool } from './native/run/pool.js'
import { startReference } from './reference/engine.js'
import type { Disagreement } from './replicas.js'
import type { Runner, Start, StartOptions, StepData, StepResult } from './runner.js'
import { ordersIn } from './step-data.js'

const startOn =
  (kernels: Kernels['kind']): Start =>
  (program, options) =>
    startEngine(program, { ...options, kernels })

/** Asked for when kernels are needed, not on import: an installed package builds its native kernels then. */
const isThere = (name: KernelName): boolean =>
  (name !== 'native' && name !== 'vectors') || nativeMissing() === undefined

/** Every engine, the fastest first. */
const starts: Readonly<Record<KernelName, Start>> = {
  native: startOn('native'),
  vectors: startOn('vectors'),
  wasm: startOn('wasm'),
  reference: startReference,
}

/** `auto` is the fastest that is there; what is not there is refused by name. */
export function kernelsFor(asked: KernelName | 'auto'): KernelName {
  const name = asked === 'auto' ? kernelNames.find(isThere) : asked
  if (name && kernelNames.includes(name) && isThere(name)) return name
  const there = kernelNames.filter(isThere)
  throw new ProblemsError([refused('', 'engine/kernels', { kernels: asked, there: there.join(' or ') })])
}

/** Products of codes are simulated, emitted and interpreted; the engine has no kernels for them. */
function startOf({ segments }: Program, kernels: KernelName): Start {
  const coded = Object.values(segments).some(({ buffers }) =>
    Object.values(buffers).some(({ dtype }) => isCodeType(dtype)),
  )
  if (coded && kernels !== 'reference')
    throw new ProblemsError([refused('plan.fp8', 'plan/precision/kernels', { kernels })])
  return starts[kernels]
}

/** Those that are faster than the definition, as far as they are there. */
export const fastKernels = (): KernelName[] => kernelNames.filter(name => name !== 'reference' && isThere(name))

type OfRunner =
  | ('description' | 'said' | 'concurrent' | 'parameter' | 'scalars' | 'setScalars')
  | ('held' | 'hold' | 'peaks' | 'peaksElsewhere' | 'choices' | 'columns' | 'spans')

/** The ranks of a training program: takes steps, reads and writes parameters and optimizer state. */
export interface Trainer extends Pick<Runner, OfRunner> {
  step(data: StepData): Promise<StepResult>
  /**
   * Replays a step twice and reports NaN, Inf and results whose bits differ. Changes nothing. Undefined: these
   * kernels cannot.
   */
  readonly replay: ((data: StepData) => Promise<Replay>) | undefined
  /** Replicas whose bits differ although they should not. */
  replicas(): readonly Disagreement[]
  /** Switches to another program of the same parameters: parameters, states and scalars are kept to the bit. */
  change(program: Program): Promise<void>
  /** In sequence order. */
  readonly choices: Choices
  /**
   * The mean loss over all labels of the batches, with the current parameters, or their moving averages if there are
   * any. Changes nothing.
   */
  evaluate(batches: readonly StepData['inputs'][]): Promise<{ readonly loss: number; readonly count: number }>
  stop(): Promise<void>
}

export interface TrainerOptions extends StartOptions {
  readonly kernels: KernelName | 'auto'
  /** Threads to use; without it every runner starts its own and ends them. The interpreter needs none. */
  readonly pool?: Pool | undefined
  readonly evaluation?: Program
}

/** What an evaluation reads: the average of a parameter, where there is one. */
const judged = (engine: Runner, name: string): ArrayLike<number> => engine.states(name).ema ?? engine.parameter(name)

/** Nothing is measured, and nothing goes wrong. */
const judging = (options: TrainerOptions): StartOptions => ({
  ...options,
  ...{ measure: false, choices: false, faults: undefined, watcher: unwatched },
})

/** Of the engine that runs when it is asked. */
const checkedBy = (engine: () => Runner): Pick<Trainer, 'replay' | 'replicas'> => ({
  replay: engine().replay && (data => engine().replay?.(data) ?? Promise.resolve({})),
  replicas: () => engine().replicas?.() ?? [],
})

/** The mean over everything that was counted. */
async function lossOver(
  judge: Runner,
  batches: Iterable<StepData['inputs']>,
): Promise<{ loss: number; count: number }> {
  let [sum, count] = [0, 0]
  for (const inputs of batches) {
    const outcome = await judge.step({ inputs, lr: 0, step: 0 })
    sum += outcome.loss * outcome.count
    count += outcome.count
  }
  return { loss: sum / count, count }
}

/** Starts all ranks of a program on the fastest kernels available here. */
export async function startTrainer(first: Program, options: TrainerOptions): Promise<Trainer> {
  const start = startOf(first, kernelsFor(options.kernels))
  let program = first
  let engine = await start(program, options)
  let judge: Runner | undefined
  let orders: Int32Array | undefined
  const ready = async (): Promise<Runner> => {
    if (!options.evaluation) throw new Error('this trainer was started without an evaluation program')
    judge ??= await start(options.evaluation, judging(options))
    for (const { name } of program.params) judge.setParameter(name, judged(engine, name))
    return judge
  }
  return {
    description: engine.description,
    ...(engine.said && { said: engine.said }),
    concurrent: engine.concurrent,
    async step(data) {
      const result = await engine.step(data)
      orders = options.choices ? ordersIn(program, data.inputs) : undefined
      return result
    },
    async change(next) {
      const before = { program, runner: engine }
      engine = await start(next, { ...options, watcher: unwatched })
      program = next
      handOver(before, { program, runner: engine })
      await before.runner.stop()
    },
    async evaluate(batches) {
      return await lossOver(await ready(), batches)
    },
    ...checkedBy(() => engine),
    ...{ parameter: name => engine.parameter(name), scalars: () => engine.scalars() },
    setScalars: scalars => engine.setScalars(scalars),
    held: at => engine.held(at),
    hold: (at, values) => engine.hold(at, values),
    get peaks() {
      return engine.peaks
    },
    get peaksElsewhere() {
      return engine.peaksElsewhere
    },
    get choices() {
      return orders ? choicesInOrder(engine.choices, orders) : engine.choices
    },
    get columns() {
      return engine.columns
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
