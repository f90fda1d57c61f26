/**
 * I: a program computes what the serial program of the same job computes. Every gradient that reaches an
 * optimizer, the loss, the norm and every updated parameter must be the same value. Where one is not, both are
 * replayed again and written down: a sum of known values that lacks one or has one too often is named, and the
 * first value that the serial program does not know is the place where the two part.
 */
import { finish, type Gap, stateNames, type Work } from '../../base/index.js'
import type { Call, Program } from '../program.js'
import { resultNames } from '../role.js'
import { type Finding, type Place, placeOf } from './law.js'
import type { Update } from './ledger.js'
import type { Outcome, Result } from './outcome.js'
import { clause, type Told, told } from './phrases.js'
import { type Addends, type Made, type Record, recordOf, sumNamed } from './record.js'
import { replaying } from './replay.js'
import { same } from './value.js'

/** The symbolic replay of a single-rank program, shared by all programs compared with it. */
export class SerialReplay {
  readonly program: Program
  #outcome: Outcome | undefined
  #record: Record | undefined

  constructor(program: Program) {
    this.program = program
  }

  get outcome(): Outcome {
    return finish(this.replaying())
  }

  *replaying(): Work<Outcome> {
    this.#outcome ??= yield* replaying(this.program)
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
      ...told('I/sum', { sum: clause('.gradient-of', { param: own.param }) }),
    }))

/** Updates whose gradients agree and which differ all the same: the norm, the settings, the parameter or its state. */
function otherUpdates(pairs: readonly Pair[]): Finding[] {
  return pairs.flatMap(({ own, right }): Finding[] => {
    if (!right || !same(own.grad, right.grad)) return []
    const { param } = own
    const say = (said: Told): Finding[] => [{ law: 'I3', ...placeOf(own), ...said }]
    if (!same(own.norm, right.norm)) return say(told('I/norm', { param }))
    return sameAfter(own, right) ? [] : say(told('I/update', { param }))
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
    if (own.length === 0) return [{ law: 'I3', ...told('I/no-result', { name }) }]
    return own
      .filter(result => !same(result.value, value))
      .map(({ pipeline }) => ({ law: 'I3', pipeline, ...told('I/result', { name }) }))
  })
}

const otherMoves = ({ moves }: Outcome, expected: Outcome): Finding[] =>
  moves
    .filter(own => !expected.moves.some(right => right.scalar === own.scalar && same(right.after, own.after)))
    .map(own => ({
      law: 'I3',
      ...placeOf(own),
      ...told('I/scalar', { scalar: own.scalar }),
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
    return value ? clause('.part-of', { call: nameOf(program, value.call) }) : clause('.a-sum')
  }
  const sum = sumNamed(name)
  const say = (said: Told, place: Place = {}): Finding[] => [{ law: lawOf(name), ...placeOf(place), ...said }]
  for (const [key, { times }] of right)
    if ((own.get(key)?.times ?? 0) < times)
      return say(told('I/lacks', { sum, part: part(key) }), made.values.get(key)?.place ?? [...own.values()][0]?.place)
  for (const [key, { times, place }] of own)
    if ((right.get(key)?.times ?? 0) < times) return say(told('I/more', { sum, part: part(key) }), place)
  const over = made.spoilt.get(name)
  return over && !known.spoilt.has(name) ? say(told('I/over', { sum }), over) : []
}

const lawOf = (sum: string) => (resultNames.some(result => result === sum) ? 'I3' : 'I2')

function unknown(program: Program, { place, call }: Made): Finding {
  const { kind } = program.segments[call.segment].instrs[place.instr ?? 0]
  return { law: 'I1', ...place, ...told('I/unknown', { kind, call: nameOf(program, call) }) }
}

function nameOf({ blocks }: Program, { block, microbatch, param }: Call): Gap {
  const of = [
    ...(block < 0 ? [] : [blocks[block].name]),
    ...(microbatch < 0 ? [] : [clause('.microbatch', { microbatch })]),
    ...(param === undefined ? [] : [param]),
  ]
  return of.length === 0 ? clause('.the-step') : { joint: ',', of }
}
