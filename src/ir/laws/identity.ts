/**
 * I: a program computes what the serial program of the same job computes. Every gradient that reaches an
 * optimizer, the loss, the norm and every updated parameter must be the same value. Where one is not, both are
 * replayed again, writing down the values they make: the first value the serial program does not know is the
 * place where the two part; if there is none, an addend of a gradient was lost or counted twice.
 */
import type { Call, Program } from '../program.js'
import { type Finding, type Place, placeOf } from './law.js'
import { type Outcome, type Result, replay, type Update } from './replay.js'
import { keyOf, same } from './value.js'

export function identity(program: Program, serial: Program, outcome: Outcome): Finding[] {
  const expected = replay(serial)
  const updates = new Map(expected.updates.map(update => [update.param, update]))
  const pairs = outcome.updates.map(own => ({ own, right: updates.get(own.param) }))
  const gradients = pairs.filter(({ own, right }) => !right || !same(own.grad, right.grad))
  const others = [...otherUpdates(pairs), ...otherResults(outcome.results, expected.results)]
  if (gradients.length === 0 && others.length === 0) return []
  const [known, made] = [recordOf(serial), recordOf(program)]
  const stranger = [...made.values].find(([key]) => !known.values.has(key))
  if (stranger) return [unknown(program, stranger[1])]
  return [...gradients.map(({ own }) => lost({ own, known, made, program })), ...others]
}

interface Pair {
  readonly own: Update
  readonly right: Update | undefined
}

interface Made {
  readonly place: Place
  readonly call: Call
}

interface Added {
  times: number
  place: Place
}

interface Record {
  /** Where each value was made first. Maps keep their order: the first stranger is the first made. */
  readonly values: ReadonlyMap<number, Made>
  /** By parameter: what was accumulated into its gradient, on all its holders. */
  readonly addends: ReadonlyMap<string, ReadonlyMap<number, Added>>
}

/** Sums are no values here: their order differs between plans. What consumes a wrong sum is a stranger in turn. */
function recordOf(program: Program): Record {
  const values = new Map<number, Made>()
  const addends = new Map<string, Map<number, Added>>()
  const gradients = gradientFrames(program)
  replay(program, {
    made({ a, b }, place, call) {
      if (!values.has(keyOf(a, b))) values.set(keyOf(a, b), { place, call })
    },
    added({ a, b }, frame, place) {
      const param = gradients[place.pipeline ?? 0].get(frame)
      if (param === undefined) return
      const own = addends.get(param) ?? new Map<number, Added>()
      addends.set(param, own.set(keyOf(a, b), { times: (own.get(keyOf(a, b))?.times ?? 0) + 1, place }))
    },
  })
  return { values, addends }
}

/** Per stream: frame -> the parameter whose gradient it holds. */
const gradientFrames = ({ params, streams }: Program): Map<number, string>[] =>
  streams.map(
    (_, pipeline) =>
      new Map(params.flatMap(({ name, frames }) => (frames[pipeline] ? [[frames[pipeline].grad, name] as const] : []))),
  )

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

interface Lost {
  readonly own: Update
  /** What the serial program does, and what the program itself does. */
  readonly known: Record
  readonly made: Record
  readonly program: Program
}

/** The first addend that one of the two has more often than the other. */
function lost({ own, known, made, program }: Lost): Finding {
  const [right, given] = [known, made].map(({ addends }) => addends.get(own.param) ?? new Map<number, Added>())
  const say = (why: string, place: Place): Finding => ({
    law: 'I2',
    ...placeOf(place),
    message: `the gradient of ${own.param} is not the serial program’s: ${why}`,
  })
  const part = (key: number) => {
    const value = known.values.get(key)
    return value ? `the part of ${nameOf(program, value.call)}` : 'a part'
  }
  for (const [key, { times }] of right)
    if ((given.get(key)?.times ?? 0) < times) return say(`it lacks ${part(key)}`, made.values.get(key)?.place ?? own)
  for (const [key, { times, place }] of given)
    if ((right.get(key)?.times ?? 0) < times) return say(`it has ${part(key)} once too often`, place)
  return say('its addends are the same, but not their sum', own)
}
