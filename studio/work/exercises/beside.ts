/** A program that somebody wrote, run beside one rank: how far the farthest value of its ranks is from what one rank computes. */
import { type Job, type Program, worldOf } from 'lockstep'
import { tapeOf } from '../program/tape.js'

export interface Beside {
  /** The farthest, beside the largest number of its value. */
  readonly off: number
  /** How many values have a counterpart. */
  readonly values: number
  readonly loss: number
  readonly serialLoss: number
}

/** `ranks`: whose values are compared. */
export function besideOneRank(program: Program, job: Job, ranks = everyRank(program)): Beside {
  const tapes = ranks.map(rank => tapeOf(program, job, rank))
  const offs = tapes.flatMap(({ frames }) => frames.flatMap(({ off }) => (off === undefined ? [] : [off])))
  const { loss, serialLoss } = tapes[0]!
  return { off: offs.reduce((a, b) => Math.max(a, b), 0), values: offs.length, loss, serialLoss }
}

const everyRank = ({ mesh }: Program): number[] => [...Array(worldOf(mesh)).keys()]
