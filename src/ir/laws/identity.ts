/**
 * I: a program computes what the serial program of the same job computes. Every gradient that reaches an
 * optimizer, the loss, the norm and every updated parameter must be the same value. Where one is not, both are
 * replayed again, writing down the values they make: the first value the serial program does not know is the
 * place where the two part; if there is none, an addend was lost or counted twice, and the difference names it.
 */
import type { Call, Program } from '../program.js'
import { type Finding, type Place, placeOf } from './law.js'
import { type Outcome, type Result, replay, type Update } from './replay.js'
import { keyOf, minus, same, type Value } from './value.js'

export function identity(program: Program, serial: Program, outcome: Outcome): Finding[] {
  const expected = replay(serial)
  const updates = new Map(expected.updates.map(update => [update.param, update]))
  const pairs = outcome.updates.map(own => ({ own, right: updates.get(own.param) }))
  const gradients = pairs.filter(({ own, right }) => !right || !same(own.grad, right.grad))
  const others = [...otherUpdates(pairs), ...otherResults(outcome.results, expected.results)]
  if (gradients.length === 0 && others.length === 0) return []
  const known = valuesOf(serial)
  const made = valuesOf(program)
  const stranger = [...made].find(([key]) => !known.has(key))
  if (stranger) return [unknown(program, stranger[1])]
  return [...gradients.map(pair => lost({ ...pair, known, made, program })), ...others]
}

interface Pair {
  readonly own: Update
  readonly right: Update | undefined
}

/** Where a value was made first. Maps keep their order: the first stranger is the first made. */
type Values = ReadonlyMap<number, { readonly place: Place; readonly call: Call }>

/** Sums are not written down: their order differs between plans. What consumes a wrong sum is a stranger in turn. */
function valuesOf(program: Program): Values {
  const made = new Map<number, { place: Place; call: Call }>()
  replay(program, ({ a, b }, place, call) => {
    const key = keyOf(a, b)
    if (!made.has(key)) made.set(key, { place, call })
  })
  return made
}

function unknown(program: Program, { place, call }: { readonly place: Place; readonly call: Call }): Finding {
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

/** Updates whose gradients agree and which differ all the same: the norm, the settings, the parameter or its state. */
function otherUpdates(pairs: readonly Pair[]): Finding[] {
  return pairs.flatMap(({ own, right }): Finding[] => {
    if (!right || !same(own.grad, right.grad)) return []
    const say = (message: string): Finding[] => [{ law: 'I3', ...placeOf(own), message }]
    if (!same(own.norm, right.norm)) return say(`the norm that clips ${own.param} is not the serial program’s`)
    const alike = own.after.length === right.after.length && own.after.every((value, i) => same(value, right.after[i]))
    return alike ? [] : say(`${own.param} is updated otherwise than in the serial program`)
  })
}

function otherResults(results: readonly Result[], expected: readonly Result[]): Finding[] {
  return expected.flatMap(({ name, value }): Finding[] => {
    const own = results.filter(result => result.name === name)
    if (own.length === 0) return [{ law: 'I3', message: `no stream has the ${name}` }]
    return own
      .filter(result => !same(result.value, value))
      .map(({ pipeline }) => ({ law: 'I3', pipeline, message: `${name} is not the serial program’s` }))
  })
}

interface Lost extends Pair {
  /** What the serial program makes, and what the program itself makes. */
  readonly known: Values
  readonly made: Values
  readonly program: Program
}

/** The difference of two sums is the addend they do not share. */
function lost({ own, right, known, made, program }: Lost): Finding {
  const say = (why: string, place: Place): Finding => ({
    law: 'I2',
    ...placeOf(place),
    message: `the gradient of ${own.param} is not the serial program’s: ${why}`,
  })
  if (!right) return say('it has no such parameter', own)
  const find = (values: Values, { a, b }: Value) => values.get(keyOf(a, b))
  const [lacking, extra] = [minus(right.grad, own.grad), minus(own.grad, right.grad)]
  const lacks = find(known, lacking)
  if (lacks) return say(`it lacks the part of ${nameOf(program, lacks.call)}`, find(made, lacking)?.place ?? own)
  const has = find(made, extra)
  return has
    ? say(`it has the part of ${nameOf(program, has.call)} once too often`, has.place)
    : say('its addends differ', own)
}
