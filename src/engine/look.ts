/** A step run again, and every result of it looked at: what is not finite, and whether the bits are those of another time. */
import type { Rank } from '../base/index.js'
import type { Call, Instr, Ref } from '../ir/index.js'
import type { StepResult } from './runner.js'

/** An instruction of a rank. */
export interface InstrPlace {
  readonly rank: Rank
  readonly call: Call
  readonly instr: Instr
}

/** The first number that is not finite. */
export interface BadNumber extends InstrPlace {
  /** The result, its first number that is not finite, and where that stands. */
  readonly made: { readonly ref: Ref; readonly value: number; readonly index: number }
  /** What it was made of: the greatest size of each operand. */
  readonly of: readonly { readonly ref: Ref; readonly most: number }[]
}

/** What lives from step to step and was not finite before it: a parameter, or a state of one. */
export interface BadState {
  readonly parameter: string
  readonly state?: string
  readonly ranks: readonly Rank[]
}

export interface Look {
  /** What was bad before the step; then the step is not run. */
  readonly before?: BadState
  /** What the step made, by the order of the program: nothing that is not finite happened before it. */
  readonly bad?: BadNumber
  /** What the step would leave; nothing is changed. */
  readonly result?: StepResult
}

/** A step that was run twice from the same state. */
export interface Replay extends Look {
  /** The first instruction whose result had other bits the second time: then it was the hardware. Without it: the data, or the program. */
  readonly differs?: InstrPlace
}
