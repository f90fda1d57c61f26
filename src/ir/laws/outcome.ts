/** What a replay finds out, and who may watch it. */
import type { Call } from '../program.js'
import type { ResultName } from '../role.js'
import type { Finding, Place } from './law.js'
import type { Update } from './ledger.js'
import type { ScalarMove } from './scalars.js'
import type { Value } from './value.js'

export interface Outcome {
  readonly findings: readonly Finding[]
  readonly updates: readonly Update[]
  readonly results: readonly Result[]
  readonly moves: readonly ScalarMove[]
}

/** What the step leaves in a frame that is read after it. */
export interface Result {
  readonly name: ResultName
  readonly pipeline: number
  readonly value: Value
}

/** Told of what happens, in order. */
export interface Watch {
  /** A value made by an op that is not a sum. */
  made(value: Value, place: Place, call: Call): void
  /** An addend accumulated into a frame. */
  added(value: Value, frame: number, place: Place): void
  /** A value left in a frame that is not what the frame held with something added. */
  put(value: Value, frame: number, place: Place): void
}
