/** What a program does in one step, written down to find out where two programs part. */
import type { Gap } from '../../base/index.js'
import type { Call, Program } from '../program.js'
import { resultNames } from '../role.js'
import type { Place } from './law.js'
import { clause } from './phrases.js'
import { replay } from './replay.js'
import { keyOf } from './value.js'

export interface Made {
  readonly place: Place
  readonly call: Call
}

export interface Addition {
  readonly times: number
  readonly place: Place
}

/** The addends of a sum by their values' keys. */
export type Addends = ReadonlyMap<number, Addition>

export interface Record {
  /** Where each value was made first. Maps keep their order: what comes first was made first. */
  readonly values: ReadonlyMap<number, Made>
  /** What was accumulated, over all holders: `gradient of w`, `loss`, `count`, `normSquared`. */
  readonly sums: ReadonlyMap<string, Addends>
  /** Where a sum was last written over, other than with zeros or by its reduction. */
  readonly spoilt: ReadonlyMap<string, Place>
}

/** Sums are no values here: their order differs between plans. */
export function recordOf(program: Program): Record {
  const values = new Map<number, Made>()
  const sums = new Map<string, Map<number, Addition>>()
  const spoilt = new Map<string, Place>()
  const names = sumFrames(program)
  replay(program, undefined, {
    made({ a, b }, place, call) {
      if (!values.has(keyOf(a, b))) values.set(keyOf(a, b), { place, call })
    },
    added({ a, b }, frame, place) {
      const name = names[place.pipeline ?? 0].get(frame)
      if (name === undefined) return
      const addends = sums.get(name) ?? new Map<number, Addition>()
      const key = keyOf(a, b)
      sums.set(name, addends.set(key, { times: (addends.get(key)?.times ?? 0) + 1, place }))
    },
    put({ a, b }, frame, place) {
      const name = names[place.pipeline ?? 0].get(frame)
      const reduces = program.segments[place.segment ?? ''].phase === 'reduce'
      if (name !== undefined && !reduces && (a !== 0 || b !== 0)) spoilt.set(name, place)
    },
  })
  return { values, sums, spoilt }
}

const gradientOf = (param: string): string => `gradient of ${param}`

/** As findings name it. */
export const sumNamed = (name: string): Gap => {
  const [, param] = /^gradient of (.*)$/s.exec(name) ?? []
  return param === undefined ? name : clause('.gradient-of', { param })
}

/** Per stream: frame -> the sum it holds. */
const sumFrames = ({ params, results: sums, streams }: Program): Map<number, string>[] =>
  streams.map((_, pipeline) => {
    const results = resultNames.flatMap(name => {
      const frame = sums[name]?.[pipeline]
      return frame === undefined ? [] : [[frame, name] as const]
    })
    const gradients = params.flatMap(({ name, frames }) => {
      const held = frames[pipeline]
      return held?.grad === undefined ? [] : [[held.grad, gradientOf(name)] as const]
    })
    return new Map([...results, ...gradients])
  })
