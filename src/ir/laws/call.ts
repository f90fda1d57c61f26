/** A call while it is replayed: the values of its buffers, and the collectives with other streams that it has joined. */
import type { Call, Program } from '../program.js'
import type { Act } from './acts.js'
import type { Place } from './law.js'
import type { Ready } from './ready.js'
import { hashValues, nothing, plus, type Value } from './value.js'

export interface CallFrame {
  readonly call: Call
  readonly pipeline: number
  readonly step: number
  readonly ready: Ready
  /** The values of the slots, word by word. */
  readonly a: Int32Array
  readonly b: Int32Array
}

/** A collective with other streams that has been joined. */
export interface JoinedCollective {
  readonly collective: string
  readonly act: Extract<Act, { op: 'arrive' }>
}

/** A call that has begun, with the collectives it does not wait for itself, by the slot of their result. */
export interface StartedCall {
  readonly frame: CallFrame
  readonly open: ReadonlyMap<number, JoinedCollective>
}

export const placeIn = ({ call, pipeline, step }: CallFrame, instr: number) => ({
  ...{ pipeline, step, segment: call.segment, instr },
})

/** The frame a slot lies in. */
export const frameOf = ({ call, ready }: CallFrame, slot: number): number => call.bind[ready.slots[slot].role]

export const valueIn = ({ a, b }: CallFrame, slot: number): Value => ({ a: a[slot], b: b[slot] })

export const put = ({ a, b }: CallFrame, slot: number, value: Value): void => {
  a[slot] = value.a
  b[slot] = value.b
}

/** The sum of what slots hold. */
export const sumIn = (frame: CallFrame, slots: readonly number[]): Value =>
  slots.reduce((sum, slot) => plus(sum, valueIn(frame, slot)), nothing)

/** Streams bring different addends of a sum, or candidates of a maximum: one taken for the other is another value. */
export const combined = ({ strange, salt }: Extract<Act, { op: 'arrive' }>, values: readonly Value[]): Value => {
  const addends = strange ? values.map(value => hashValues(salt, [value])) : values
  const sum = addends.reduce(plus, nothing)
  return strange ? hashValues(salt, [sum]) : sum
}

/** The last call that a frame is bound in. */
export function lastCall({ streams }: Program, pipeline: number, frame: number): Place {
  const { steps } = streams[pipeline]
  const step = steps.findLastIndex(at => at.kind === 'call' && at.bind.includes(frame))
  const call = steps[step]
  return call?.kind === 'call' ? { pipeline, step, segment: call.segment } : { pipeline }
}
