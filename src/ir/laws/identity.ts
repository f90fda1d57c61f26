/**
 * I: a program computes what the serial program of the same job computes. Every gradient that reaches an
 * optimizer, the loss, the norm and every updated parameter must be the same value. Where one is not, both are
 * replayed again and written down: a sum of known values that lacks one or has one too often is named, and the
 * first value that the serial program does not know is the place where the two part.
 */
import { stateNames } from '../../base/index.js'
import type { Call, Program } from '../program.js'
import { resultNames } from '../role.js'
import { type Finding, type Place, placeOf } from './law.js'
import type { Update } from './ledger.js'
import type { Outcome, Result } from './outcome.js'
import { type Addends, gradientOf, type Made, type Record, recordOf } from './record.js'
import { replay } from './replay.js'
import { same } from './value.js'

/** The serial program, replayed once for all the programs that are compared with it. */
export class SerialReplay {
  readonly program: Program
  #outcome: Outcome | undefined
  #record: Record | undefined

  constructor(program: Program) {
    this.program = program
  }

  get outcome(): Outcome {
    this.#outcome ??= replay(this.program)
    return this.#outcome
  }

  get record(): Record {
    this.#record ??= recordOf(this.program)
    return this.#record
  }
}

export function identity(program: Program, serial: SerialReplay, outcome: Outcome): Finding[] {
  const expected = serial.outcome
  const updates = new Map(expected.updates.map(update => [update.param, update]))
  const pairs = outcome.updates.map(own => ({ own, right: updates.get(own.param) }))
  const differing = [
    ...otherGradients(pairs),
    ...otherUpdates(pairs),
    ...otherResults(outcome.results, expected.results),
    ...otherMoves(outcome, expected),
  ]
  if (differing.length === 0) return []
  const [known, made] = [serial.record, recordOf(program)]
  const stranger = [...made.values].find(([key]) => !known.values.has(key))
  const records = { program, known, made, strict: stranger !== undefined }
  const sums = [...known.sums.keys()].filter(name => name !== 'normSquared')
  const causes = [
    ...sums.flatMap(name => otherSum(name, records)),
    ...(stranger ? [unknown(program, stranger[1])] : []),
  ]
  if (causes.length > 0) return causes
  // The norm is a sum of gradients: where they are right, and it is not, its own addends say why.
  const norm = differing.some(({ law }) => law === 'I2') ? [] : otherSum('normSquared', records)
  return norm.length > 0 ? norm : differing
}

interface Pair {
  readonly own: Update
  readonly right: Update | undefined
}

const otherGradients = (pairs: readonly Pair[]): Finding[] =>
  pairs
    .filter(({ own, right }) => !right || !same(own.grad, right.grad))
    .map(({ own }) => ({
      law: 'I2',
      ...placeOf(own),
      message: `the ${gradientOf(own.param)} is not the serial program’s`,
    }))

/** Updates whose gradients agree and which differ all the same: the norm, the settings, the parameter or its state. */
function otherUpdates(pairs: readonly Pair[]): Finding[] {
  return pairs.flatMap(({ own, right }): Finding[] => {
    if (!right || !same(own.grad, right.grad)) return []
    const say = (message: string): Finding[] => [{ law: 'I3', ...placeOf(own), message }]
    if (!same(own.norm, right.norm)) return say(`the norm that clips ${own.param} is not the serial program’s`)
    return sameAfter(own, right) ? [] : say(`${own.param} is updated differently from the serial program`)
  })
}

const sameAfter = ({ after: own }: Update, { after: right }: Update): boolean =>
  same(own.updated, right.updated) &&
  stateNames.every(state => {
    const [a, b] = [own.states[state], right.states[state]]
    return a && b ? same(a, b) : a === b
  })

function otherResults(results: readonly Result[], expected: readonly Result[]): Finding[] {
  return expected.flatMap(({ name, value }): Finding[] => {
    const own = results.filter(result => result.name === name)
    if (own.length === 0) return [{ law: 'I3', message: `no stream has the ${name}` }]
    return own
      .filter(result => !same(result.value, value))
      .map(({ pipeline }) => ({ law: 'I3', pipeline, message: `${name} is not the serial program’s` }))
  })
}

const otherMoves = ({ moves }: Outcome, expected: Outcome): Finding[] =>
  moves
    .filter(own => !expected.moves.some(right => right.scalar === own.scalar && same(right.after, own.after)))
    .map(own => ({
      law: 'I3',
      ...placeOf(own),
      message: `${own.scalar} becomes another than in the serial program`,
    }))

interface Records {
  readonly program: Program
  /** What the serial program does, and what the program itself does. */
  readonly known: Record
  readonly made: Record
  /** There are strangers: look at sums of known values only, the others are echoes. */
  readonly strict: boolean
}

const none: Addends = new Map<never, never>([])

/** Why a sum is not the serial program's, if it lacks an addend or has one too often. */
function otherSum(name: string, { program, known, made, strict }: Records): Finding[] {
  const [right, own] = [known.sums.get(name) ?? none, made.sums.get(name) ?? none]
  if (strict && [...own.keys()].some(key => !known.values.has(key))) return []
  const part = (key: number) => {
    const value = known.values.get(key)
    return value ? `the part of ${nameOf(program, value.call)}` : 'a sum'
  }
  const say = (why: string, place: Place = {}): Finding[] => [
    { law: lawOf(name), ...placeOf(place), message: `the ${name} is not the serial program’s: it ${why}` },
  ]
  for (const [key, { times }] of right)
    if ((own.get(key)?.times ?? 0) < times)
      return say(`lacks ${part(key)}`, made.values.get(key)?.place ?? [...own.values()][0]?.place)
  for (const [key, { times, place }] of own)
    if ((right.get(key)?.times ?? 0) < times) return say(`has ${part(key)} once too often`, place)
  const over = made.spoilt.get(name)
  return over && !known.spoilt.has(name) ? say('is written over', over) : []
}

const lawOf = (sum: string) => (resultNames.some(result => result === sum) ? 'I3' : 'I2')

function unknown(program: Program, { place, call }: Made): Finding {
  const { kind } = program.segments[call.segment].instrs[place.instr ?? 0]
  const message = `${kind} for ${nameOf(program, call)} computes something the serial program does not`
  return { law: 'I1', ...place, message }
}

const nameOf = ({ blocks }: Program, { block, microbatch, param }: Call) =>
  [
    ...(block < 0 ? [] : [blocks[block].name]),
    ...(microbatch < 0 ? [] : [`microbatch ${microbatch}`]),
    ...(param === undefined ? [] : [param]),
  ].join(', ') || 'the step'
