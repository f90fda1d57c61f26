/**
 * Parallel equals serial: a program beside the one-rank program of the same job, both from the same weights on the
 * same data. Losses and gradients of every step, parameters after the last, and peak bytes against the plan.
 *
 * Errors are relative. A gradient's is measured against the largest element of its tensor, or a small part of the
 * model's largest where a tensor's gradient is exactly 0 in theory (the key bias of attention: only rounding is left).
 * A parameter's is measured against its largest element, in any step, plus what the optimizer makes of a gradient error of that
 * size: Adam divides by the root of the second moment, and by eps alone where the gradient is only rounding. From the
 * second step on gradients are those of parameters moved by so much, and are allowed as much more.
 */
import {
  asPart,
  coordinatesOf,
  finish,
  isOptimizer,
  type Optimizer,
  type OptimizerKind,
  type OptimizerOf,
  type Space,
  type States,
  spaces,
  type Work,
} from '../../base/index.js'
import { inputsOf } from '../../geometry/index.js'
import { type InstrOf, type Kind, kinds, type Program, requireSound, roomIn } from '../../ir/index.js'
import type { Runner } from '../runner.js'
import { type Data, syntheticData } from './data.js'
import { type Interpreter, interpreterOf } from './machine.js'

export interface CompareOptions {
  readonly steps: number
  readonly seed: number
  readonly lr: number
  /** Tokens are drawn below this. */
  readonly vocab: number
  readonly precision?: 'f64' | 'f32'
}

export interface Worst {
  readonly name: string
  readonly error: number
}

export interface Comparison {
  readonly steps: readonly {
    readonly loss: number
    readonly serial: number
    readonly error: number
    readonly gradient: Worst
  }[]
  readonly parameter: Worst
  /** The largest difference between ranks that should hold the same values. */
  readonly spread: Worst
  readonly memory: readonly MemoryMismatch[]
}

export interface MemoryMismatch {
  readonly rank: number
  readonly space: Space
  readonly kind: Kind
  readonly planned: number
  readonly measured: number
}

/** The largest error of a comparison: loss, gradients and parameters. */
export const worstOf = ({ steps, parameter }: Comparison): number =>
  worstNumber([parameter.error, ...steps.flatMap(step => [step.error, step.gradient.error])])

/** What the one-rank program does, kept so that many plans can be compared with one run. */
export interface SerialRun {
  readonly steps: readonly SerialStep[]
  readonly parameters: ReadonlyMap<string, Float64Array>
  /** The largest element of each parameter after any step: a bias that follows the load may be back at 0, but for rounding. */
  readonly largest: ReadonlyMap<string, number>
}

interface SerialStep {
  readonly loss: number
  readonly gradients: ReadonlyMap<string, Float64Array>
  /** What a gradient's error is measured against. */
  readonly scales: ReadonlyMap<string, number>
  /** How far the updates so far carry a gradient error of that size, by element; and in all, relative to the parameters. */
  readonly pushed: ReadonlyMap<string, Float64Array>
  readonly growth: number
}

/** Runs the single-rank reference of a program and keeps what `compare` needs. */
export function runSerial(program: Program, options: CompareOptions): SerialRun {
  requireSound(program)
  return finish(runningSerial(program, options))
}

export function* runningSerial(program: Program, options: CompareOptions): Work<SerialRun> {
  const machine = interpreterOf(program, { seed: options.seed, precision: 'f64' })
  const data = dataFor(program, options)
  const names = program.params.map(({ name }) => name)
  const followers = followersIn(program)
  const steps: SerialStep[] = []
  const largest = new Map<string, number>()
  for (let step = 0; step < options.steps; step++) {
    const { loss } = yield* stepOf(machine, data, options, step)
    for (const name of names) largest.set(name, Math.max(largest.get(name) ?? 0, greatest(machine.parameter(name))))
    const gradients = new Map(trainedIn(program).map(name => [name, machine.gradient(name)]))
    const scales = gradientScales(gradients, followers)
    const sensitivity = sensitivities(program, machine, options, step)
    const pushed = new Map(
      names.map(name => {
        const before = steps[step - 1]?.pushed.get(name)
        const isMoved = gradients.has(name) && !followers.has(name)
        const by = isMoved ? sensitivity(name) : machine.parameter(name).fill(0)
        return [name, by.map((by, i) => (before?.[i] ?? 0) + by * (scales.get(name) ?? 0))]
      }),
    )
    const growth = norm([...pushed.values()]) / norm(names.map(name => machine.parameter(name)))
    steps.push({ loss, gradients, scales, pushed, growth })
  }
  return { steps, largest, parameters: new Map(names.map(name => [name, machine.parameter(name)])) }
}

/** What a run of a program left to be looked at, whoever ran it. */
export interface RunRecord {
  readonly steps: readonly { readonly loss: number; readonly gradients: ReadonlyMap<string, Float64Array> }[]
  readonly parameters: ReadonlyMap<string, Float64Array>
  /** The greatest difference, per parameter, between ranks that should hold the same numbers. */
  readonly spreads: ReadonlyMap<string, number>
  readonly peaks: Runner['peaks']
  readonly peaksElsewhere: Runner['peaksElsewhere']
}

/** One of several steps, its shares counted in all of them. */
const stepOf = (machine: Interpreter, data: Data, { lr, steps }: CompareOptions, step: number) =>
  asPart(step / steps, (step + 1) / steps, machine.stepping({ inputs: data(step), lr, step }))

/** Runs a program on the reference interpreter and compares losses, gradients and parameters with a single-rank run. */
export function compare(program: Program, serial: SerialRun, options: CompareOptions): Comparison {
  requireSound(program)
  return finish(comparing(program, serial, options))
}

export function* comparing(program: Program, serial: SerialRun, options: CompareOptions): Work<Comparison> {
  const machine = interpreterOf(program, { seed: options.seed, precision: options.precision ?? 'f64' })
  const data = dataFor(program, options)
  const steps: RunRecord['steps'][number][] = []
  for (const step of serial.steps.keys()) {
    const { loss } = yield* stepOf(machine, data, options, step)
    steps.push({ loss, gradients: new Map(trainedIn(program).map(name => [name, machine.gradient(name)])) })
  }
  const parameters = byName(program, name => machine.parameter(name))
  const spreads = byName(program, name => machine.spread(name))
  const { peaks, peaksElsewhere } = machine
  return compareRun(program, { steps, parameters, spreads, peaks, peaksElsewhere }, serial)
}

/** Parameters that are not frozen. */
const trainedIn = ({ params }: Program): string[] => params.filter(({ frozen }) => !frozen).map(({ name }) => name)

const byName = <T>({ params }: Program, of: (name: string) => T): Map<string, T> =>
  new Map(params.map(({ name }) => [name, of(name)]))

export function compareRun(program: Program, run: RunRecord, serial: SerialRun): Comparison {
  const names = program.params.map(({ name }) => name)
  const steps = serial.steps.map((expected, step) => {
    const { loss, gradients } = run.steps[step]
    const allowance = 1 + (serial.steps[step - 1]?.growth ?? 0)
    const error = (name: string) =>
      gap(gradients.get(name)!, expected.gradients.get(name)!, () => expected.scales.get(name)! * allowance)
    const gradient = worst(trainedIn(program).map(name => ({ name, error: error(name) })))
    return { loss, serial: expected.loss, error: Math.abs(loss - expected.loss) / Math.abs(expected.loss), gradient }
  })
  const { pushed } = serial.steps[serial.steps.length - 1]
  const parameter = worst(
    names.map(name => {
      const expected = serial.parameters.get(name)!
      const largest = serial.largest.get(name)!
      return { name, error: gap(run.parameters.get(name)!, expected, i => largest + pushed.get(name)![i]) }
    }),
  )
  const spread = worst([...run.spreads].map(([name, error]) => ({ name, error })))
  return { steps, parameter, spread, memory: memoryMismatches(program, run) }
}

/** Synthetic data over the whole global batch: the same whatever the number of microbatches. */
export const dataFor = (program: Program, { vocab, seed }: CompareOptions): Data =>
  syntheticData(inputsOf(program), vocab, seed)

/** How far one unit of gradient moves an element of a parameter in a step, in units of the learning rate. */
const reach: { readonly [K in OptimizerKind]: (settings: OptimizerOf<K>, of: ParameterState) => Float64Array } = {
  adamw: ({ beta2, eps }, { states, step }) => states.v!.map(v => 1 / (Math.sqrt(v / (1 - beta2 ** (step + 1))) + eps)),
  sgd: ({ nesterov, momentum }, { parameter }) => parameter.map(() => (nesterov ? 1 + momentum : 1)),
  lamb: ({ beta2, eps }, { parameter, states, step }) => {
    const most = Math.max(1, norm([parameter]))
    return states.v!.map(v => most / (Math.sqrt(v / (1 - beta2 ** (step + 1))) + eps))
  },
  // What is small beside the largest singular value grows by 3.4445 in each of five steps.
  muon: ({ stretch = 1 }, { states }) => {
    const most = (500 * stretch) / Math.max(norm([states.m!]), 1e-7)
    return states.m!.map(() => most)
  },
  // The mean of squares may be that of one small number.
  adafactor: ({ eps1, inputs }, { parameter, states }) => {
    const most = Math.max(1, norm([parameter]))
    const by = (square: number) => most / Math.max(Math.sqrt(square), eps1)
    if (inputs === undefined) return states.v!.map(by)
    const [rows, columns, mean] = [states.rows!, states.columns!, states.mean!]
    const width = columns.length / mean.length
    return parameter.map((_, i) => {
      const [row, expert] = [Math.floor(i / width), Math.floor((i / parameter.length) * mean.length)]
      return by((rows[row] * columns[expert * width + (i % width)]) / Math.max(mean[expert], eps1))
    })
  },
  // A sign turns where the mean is 0, and then at once.
  lion: (_, { states }) => states.m!.map(m => 1 / Math.max(Math.abs(m), Number.MIN_VALUE)),
}

interface ParameterState {
  readonly parameter: Float64Array
  readonly states: States<Float64Array>
  readonly step: number
}

function sensitivities(
  program: Program,
  machine: Interpreter,
  { lr }: CompareOptions,
  step: number,
): (name: string) => Float64Array {
  const optimizers = optimizersIn(program)
  return name => {
    const optimizer = optimizers.get(name)
    if (!optimizer) throw new Error(`the program does not update ${name}`)
    const of = reach[optimizer.kind] as (settings: Optimizer, of: ParameterState) => Float64Array // each kind has its own
    const state = { parameter: machine.parameter(name), states: machine.states(name), step }
    return of(optimizer, state).map(by => lr * (optimizer.rate ?? 1) * by)
  }
}

/** What moves each parameter. */
function optimizersIn({ streams, segments }: Program): ReadonlyMap<string, InstrOf<OptimizerKind>> {
  const steps = streams.flatMap(stream => stream.steps)
  return new Map(
    steps.flatMap(step => {
      if (step.kind !== 'call' || step.param === undefined) return []
      const optimizer = segments[step.segment].instrs.find(instr => isOptimizer(instr))
      return optimizer ? [[step.param, optimizer] as const] : []
    }),
  )
}

const norm = (tensors: readonly Float64Array[]): number =>
  Math.sqrt(tensors.reduce((sum, tensor) => tensor.reduce((inner, value) => inner + value * value, sum), 0))

/** A tensor's largest gradient, or 1e-4 of the model's largest. Counts are no gradients: of them a part of one is much. */
function gradientScales(
  gradients: ReadonlyMap<string, Float64Array>,
  followers: ReadonlySet<string>,
): Map<string, number> {
  const own = new Map([...gradients].map(([name, values]) => [name, followers.has(name) ? 1 : greatest(values)]))
  const floor = 1e-4 * Math.max(...[...own].flatMap(([name, scale]) => (followers.has(name) ? [] : [scale])))
  return new Map([...own].map(([name, scale]) => [name, Math.max(scale, floor)]))
}

/** Parameters that follow counts instead of a gradient. */
function followersIn({ streams, segments }: Program): ReadonlySet<string> {
  const balances = (segment: string) =>
    segments[segment].instrs.some(({ kind }) => kind === 'balance' || kind === 'track')
  const steps = streams.flatMap(stream => stream.steps)
  return new Set(
    steps.flatMap(step =>
      step.kind === 'call' && step.param !== undefined && balances(step.segment) ? [step.param] : [],
    ),
  )
}

const greatest = (values: ArrayLike<number>): number => {
  let most = 0
  for (let i = 0; i < values.length; i++) most = Math.max(most, Math.abs(values[i]))
  return most
}

/** The greatest difference over what it is measured against; NaN if anything is. */
function gap(got: Float64Array, expected: Float64Array, scale: (i: number) => number): number {
  let most = got.length === expected.length ? 0 : Number.NaN
  for (let i = 0; i < expected.length; i++) {
    const difference = Math.abs(got[i] - expected[i])
    if (difference !== 0) most = Math.max(most, difference / scale(i))
  }
  return most
}

const worstNumber = (errors: readonly number[]): number =>
  errors.reduce((a, b) => (Number.isNaN(a) || Number.isNaN(b) ? Number.NaN : Math.max(a, b)), 0)

const worst = (all: readonly Worst[]): Worst =>
  all.reduce((a, b) => (Number.isNaN(a.error) || a.error >= b.error ? a : b), { name: '', error: 0 })

function memoryMismatches(program: Program, run: Pick<RunRecord, 'peaks' | 'peaksElsewhere'>): MemoryMismatch[] {
  return run.peaks.flatMap((device, rank) => {
    const stream = program.streams[coordinatesOf(program.mesh, rank).pp ?? 0]
    return spaces.flatMap(space => {
      const [planned, measured] = [roomIn(stream, space).peak, { ...run.peaksElsewhere[rank], device }[space]]
      return kinds
        .filter(kind => planned[kind] !== measured[kind])
        .map(kind => ({ rank, space, kind, planned: planned[kind], measured: measured[kind] }))
    })
  })
}
