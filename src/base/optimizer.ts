/**
 * Optimizers, and what each keeps of a parameter from step to step: a closed union, and beside it the one table that says
 * so. An optimizer is an op as well: (grad, ...scalars) -> (updated, ...states), and it reads what it writes.
 */
import { type Dim, elementsOf } from './layout.js'

export interface AdamW {
  readonly beta1: number
  readonly beta2: number
  readonly eps: number
  readonly weightDecay: number
  /** The decay is added to the gradient, as Adam does, not taken off the parameter. */
  readonly coupled?: boolean | undefined
  /** The greatest second moment so far counts. */
  readonly amsgrad?: boolean | undefined
  /** Moments are taken as they are, though they start from 0. */
  readonly uncorrected?: boolean | undefined
  /** It is given m itself, and v stands still; where that is 0, there has never been a gradient: m becomes 0. */
  readonly frozen?: boolean | undefined
}

export interface Sgd {
  readonly momentum: number
  readonly weightDecay: number
  /** The direction looks one step ahead. */
  readonly nesterov?: boolean | undefined
  /** The part of a gradient that momentum leaves out, but for the first. */
  readonly dampening?: number | undefined
}

/** The sign of a mean is the direction; the mean that is kept has a memory of its own. */
export interface Lion {
  readonly beta1: number
  readonly beta2: number
  readonly weightDecay: number
}

/** Adam's direction, so long as the parameter is: it is multiplied by |param| / |direction|, of the whole parameter. */
export interface Lamb {
  readonly beta1: number
  readonly beta2: number
  readonly eps: number
  readonly weightDecay: number
  /** Parameters that are not decayed are treated so, too. */
  readonly always?: boolean | undefined
}

/** A mean of gradients, made orthogonal as a matrix, is the direction: it is given that, and keeps the mean. */
export interface Muon {
  readonly momentum: number
  readonly weightDecay: number
  /** What the direction is multiplied by, for the shape of the matrix. */
  readonly stretch?: number | undefined
}

/**
 * The mean of squares of a matrix, as those of its rows and its columns: V = rows x columns / mean. A step is as long as the parameter
 * is, and steps of elements that are too large make all of it shorter.
 */
export interface Adafactor {
  /** Of the n-th step the mean takes the part n^beta2Decay. */
  readonly beta2Decay: number
  /** What the root of a mean of squares is at least. */
  readonly eps1: number
  /** As large a parameter, by its root mean square, counts at least. */
  readonly eps2: number
  /** The root mean square of a step, before it is made as long as the parameter, is at most this. */
  readonly clipThreshold: number
  readonly weightDecay: number
  /** Of a matrix: how many of its dims are rows (`shapeOfMatrix`). Else the mean of squares is kept as it is. */
  readonly inputs?: number | undefined
  /** Elements of the whole parameter. */
  readonly elements?: number | undefined
}

export type Optimizer =
  | ({ readonly kind: 'adamw' } & AdamW)
  | ({ readonly kind: 'sgd' } & Sgd)
  | ({ readonly kind: 'lion' } & Lion)
  | ({ readonly kind: 'lamb' } & Lamb)
  | ({ readonly kind: 'muon' } & Muon)
  | ({ readonly kind: 'adafactor' } & Adafactor)
export type OptimizerKind = Optimizer['kind']
export type OptimizerOf<K extends OptimizerKind> = Extract<Optimizer, { kind: K }>

/** The quintic a x + b x^3 + c x^5 that Newton and Schulz repeat: it brings what lies between 0 and 1 quickly near 1. */
export const newtonSchulzFactors = [3.4445, -4.775, 2.0315] as const

/** Gram and Schmidt: what is less than this of a column, beside the columns before it, is taken for what rounding left. */
export const leastLeft = 2 ** -20

/** A tensor as matrices, one for each expert: its first dims are rows, so many as are inputs. */
export function shapeOfMatrix(dims: readonly Dim[], inputs: number) {
  const experts = dims[0]?.name === 'expert' ? 1 : 0
  const size = (from: number, to?: number) => elementsOf(dims.slice(from, to))
  return { each: size(0, experts), rows: size(experts, experts + inputs), columns: size(experts + inputs) }
}

/**
 * How tensors lie in the lines of a stack: `dims` as they are there, in so many blocks along each. The blocks lie one after the other, each as
 * a line in equal room; what it leaves of that is 0.
 */
export interface Lines {
  readonly dims: readonly Dim[]
  readonly blocks: readonly number[]
}

/** Of a tensor as matrices, or of a stack of such: how many there are, and how large. */
export function matricesIn(dims: readonly Dim[], inputs: number, lines: Lines | undefined) {
  if (!lines) return shapeOfMatrix(dims, inputs)
  const { each, ...shape } = shapeOfMatrix(lines.dims, inputs)
  return { each: each * dims[0].size, ...shape }
}

export const liesInBlocks = (lines: Lines | undefined): boolean => lines?.blocks.some(ways => ways > 1) === true

/** Numbers that Newton and Schulz need room for: one matrix, another where it lies in blocks, and two squares of its shorter side. */
export function orthogonalRoom({ rows, columns }: { rows: number; columns: number }, lines?: Lines): number {
  return (liesInBlocks(lines) ? 2 : 1) * rows * columns + 2 * Math.min(rows, columns) ** 2
}

/** For every element of a tensor its place in its line, which has room for so many. */
export function placesInLine({ dims, blocks }: Lines, room: number): Int32Array {
  const each = room / blocks.reduce((product, ways) => product * ways, 1)
  return Int32Array.from({ length: elementsOf(dims) }, (_, element) => {
    let [rest, block, at, ways, elements] = [element, 0, 0, 1, 1]
    for (let d = dims.length - 1; d >= 0; d--) {
      const size = dims[d].size / blocks[d]
      const index = rest % dims[d].size
      rest = (rest - index) / dims[d].size
      block += ways * Math.floor(index / size)
      at += elements * (index % size)
      ways *= blocks[d]
      elements *= size
    }
    return block * each + at
  })
}

/** The dims of rows, columns and whole matrices of such a tensor. */
export function factorsOf(dims: readonly Dim[], inputs: number) {
  const each = dims[0]?.name === 'expert' ? 1 : 0
  const mean = dims.slice(0, each)
  return { rows: dims.slice(0, each + inputs), columns: [...mean, ...dims.slice(each + inputs)], mean } as const
}

/** What a parameter is to its model: optimizers may treat them apart. */
export const roleFacts = {
  /** Takes the features of a token to others, inside of a block; of an expert too. */
  matrix: { decays: true },
  /** Of tokens, and of positions. */
  embedding: { decays: true },
  /** Features to logits. Where it is the embedding too, it is that. */
  head: { decays: true },
  router: { decays: true },
  /** Added to a matrix that is frozen, as one of the two factors of what is added. */
  adapter: { decays: true },
  norm: { decays: false },
  bias: { decays: false },
} as const satisfies Readonly<Record<string, { readonly decays: boolean }>>

export type ParamRole = keyof typeof roleFacts
export const paramRoles = Object.keys(roleFacts) as readonly ParamRole[] // its own keys

/** What the settings of an optimizer are multiplied by for the parameters of a role. */
export interface Multipliers {
  readonly lr?: number | undefined
  readonly weightDecay?: number | undefined
}

/** Unless it is said, norms and biases are not decayed. */
export const multipliersOf = (
  role: ParamRole,
  roles: Readonly<Partial<Record<ParamRole, Multipliers | undefined>>> = {},
): { readonly lr: number; readonly weightDecay: number } => {
  const { lr = 1, weightDecay = roleFacts[role].decays ? 1 : 0 } = roles[role] ?? {}
  return { lr, weightDecay }
}

/**
 * Numbers of the whole program that live from step to step, the same bits on every rank. `taken`: how many steps were taken,
 * which bias corrections and learning rates go by. `scale`: what gradients are multiplied with until they are summed; `growth`:
 * clean steps towards the next time it grows; `hysteresis`: overflows left until it falls (loss-scale.ts).
 */
export const scalarNames = ['taken', 'scale', 'growth', 'hysteresis'] as const
export type ScalarName = (typeof scalarNames)[number]

/** Something of each scalar that a program has. */
export type Scalars<T> = Readonly<Partial<Record<ScalarName, T>>>

/** In the order of `scalarNames`. */
export const scalarEntries = <T>(scalars: Scalars<T> = {}): (readonly [ScalarName, T])[] =>
  scalarNames.flatMap(name => (scalars[name] === undefined ? [] : [[name, scalars[name]] as const]))

/** A number of the whole step, or of the program, that an optimizer reads. */
export type StepScalar = 'normSquared' | 'lr' | ScalarName

/**
 * A step is taken where the norm of its whole gradient is finite, and below the limit if there is one; else it is skipped:
 * what reads a number that lives from step to step and writes it writes what it read.
 */
export interface Guard {
  readonly limit?: number
}

/** What the square of a norm is taken for that is finite and too large for the step (`weigh`): below no limit, and no overflow. */
export const tooLarge = (2 - 2 ** -23) * 2 ** 127
/** A limit below which norms stay that are not too large, as they are weighed. */
export const weighedLimit = 1e18

/** What the square of the norm must be below; NaN is below nothing. */
export const squaredLimit = ({ limit = Number.POSITIVE_INFINITY }: Guard): number => limit * limit

export interface StateFacts {
  /** What it holds before the first step. */
  readonly startsFrom: 'zeros' | 'parameter'
  /** The optimizer updates it in the parameter's place: it is the parameter with more digits. */
  readonly isMaster?: true
  /** Of rows or columns, next to nothing beside the parameter. */
  readonly isSmall?: true
  /** A step that sends gradients as they are leaves it as it is. */
  readonly mayStay?: true
}

/**
 * Unless a program says otherwise (`Param.apart`), a state has the dims of its parameter, the layout of `Param.state` and the
 * state dtype of the precision.
 */
export const stateFacts = {
  /** The mean of gradients. */
  m: { startsFrom: 'zeros' },
  /** The mean of their squares. */
  v: { startsFrom: 'zeros' },
  /** The greatest that the mean of squares has been. */
  top: { startsFrom: 'zeros' },
  /** The mean of squares of the rows of a matrix, of its columns, and of all of it. */
  rows: { startsFrom: 'zeros', isSmall: true },
  columns: { startsFrom: 'zeros', isSmall: true },
  mean: { startsFrom: 'zeros', isSmall: true },
  /** The parameter in the state dtype, where the parameter itself is narrower: it is rounded from its master. */
  master: { startsFrom: 'parameter', isMaster: true },
  /** Of a scale of codes: the greatest absolute values of the last steps, the latest last; the first is room for this step's. */
  history: { startsFrom: 'zeros', isSmall: true },
  /** An exponential moving average of the parameter. */
  ema: { startsFrom: 'parameter' },
  /** What was given to be sent and was not yet: it is added to the next gradient. Ranks of the data axes have addends of it. */
  error: { startsFrom: 'zeros', mayStay: true },
  /** The same of the sum, where its owners send it on. */
  sumError: { startsFrom: 'zeros', mayStay: true },
  /** The columns that a gradient is projected on, as the last step found them. */
  basis: { startsFrom: 'zeros', isSmall: true, mayStay: true },
} as const satisfies Readonly<Record<string, StateFacts>>

export type StateName = keyof typeof stateFacts
export const stateNames = Object.keys(stateFacts) as readonly StateName[] // its own keys

export const mayStay = (state: StateName): boolean => 'mayStay' in stateFacts[state]
export const isMaster = (state: StateName): boolean => 'isMaster' in stateFacts[state]

/** Something of each state that a parameter has. */
export type States<T> = Readonly<Partial<Record<StateName, T>>>

/** In the order of `stateNames`. */
export const stateEntries = <T>(states: States<T>): (readonly [StateName, T])[] =>
  stateNames.flatMap(name => (states[name] === undefined ? [] : [[name, states[name]] as const]))

export const mapStates = <T, U>(states: States<T>, of: (value: T, state: StateName) => U): States<U> =>
  Object.fromEntries(stateEntries(states).map(([name, value]) => [name, of(value, name)]))

interface OptimizerFacts<O extends Optimizer> {
  /** The states it updates, in the order of its results. */
  readonly states: readonly StateName[]
  /** The scalars it reads, in the order of its operands. */
  readonly scalars: readonly StepScalar[]
  /** What else it is given, which other ops make of the parameter, its gradient and its states. */
  readonly given?: readonly string[]
  /** Which of all these it has only with some settings. */
  readonly optional?: Readonly<Partial<Record<StateName | StepScalar, (settings: O) => boolean>>>
}

export const optimizerFacts: { readonly [K in OptimizerKind]: OptimizerFacts<OptimizerOf<K>> } = {
  adamw: {
    states: ['m', 'v', 'top'],
    scalars: ['normSquared', 'lr', 'taken'],
    optional: { top: ({ amsgrad = false }) => amsgrad, taken: ({ uncorrected = false }) => !uncorrected },
  },
  sgd: {
    states: ['m'],
    scalars: ['normSquared', 'lr', 'taken'],
    optional: { m: ({ momentum }) => momentum > 0, taken: ({ dampening = 0 }) => dampening > 0 },
  },
  lion: { states: ['m'], scalars: ['normSquared', 'lr'] },
  lamb: { states: ['m', 'v'], scalars: ['normSquared', 'lr', 'taken'], given: ['paramSquared', 'stepSquared'] },
  muon: { states: ['m'], scalars: ['normSquared', 'lr'], given: ['direction'] },
  adafactor: {
    states: ['v', 'rows', 'columns', 'mean'],
    scalars: ['normSquared', 'lr', 'taken'],
    given: ['paramSquared', 'stepSquared', 'rowMeans', 'columnMeans', 'meanSquare'],
    optional: {
      v: ({ inputs }) => inputs === undefined,
      rows: ({ inputs }) => inputs !== undefined,
      columns: ({ inputs }) => inputs !== undefined,
      mean: ({ inputs }) => inputs !== undefined,
    },
  },
}

export const optimizerKinds = Object.keys(optimizerFacts) as readonly OptimizerKind[] // its own keys

export const isOptimizer = <T extends { readonly kind: string }>(op: T): op is Extract<T, { kind: OptimizerKind }> =>
  Object.hasOwn(optimizerFacts, op.kind)

export function statesOf<K extends OptimizerKind>(
  settings: OptimizerOf<K> & { readonly kind: K },
): readonly StateName[] {
  const { states, optional = {} } = optimizerFacts[settings.kind]
  return states.filter(state => optional[state]?.(settings) ?? true)
}

export function scalarsOf<K extends OptimizerKind>(
  settings: OptimizerOf<K> & { readonly kind: K },
): readonly StepScalar[] {
  const { scalars, optional = {} } = optimizerFacts[settings.kind]
  return scalars.filter(scalar => optional[scalar]?.(settings) ?? true)
}

/** All that is kept of a parameter: what the optimizer updates, and a master where the state is wider than the parameter. */
export const statesKept = (settings: Optimizer, hasMaster: boolean): readonly StateName[] =>
  stateNames.filter(name => (isMaster(name) ? hasMaster : statesOf(settings).includes(name)))

/** Of a matrix, those that are as large as it is. */
export const fullStates = (settings: Optimizer, hasMaster: boolean): readonly StateName[] =>
  statesKept(settings.kind === 'adafactor' ? { ...settings, inputs: 1 } : settings, hasMaster).filter(
    state => !('isSmall' in stateFacts[state]),
  )
