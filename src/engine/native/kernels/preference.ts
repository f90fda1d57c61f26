/**
 * Which of several contenders is taken, by times of all of them in turns. They are compared turn by turn, since what else the machine
 * does slows those that run one after the other alike, and the turn in the middle counts: no single turn decides.
 */

/** Seconds by turn, by work and by contender: those of one work follow each other. */
export type Turns = readonly (readonly (readonly number[])[])[]

export interface Preference {
  /** The first that is about as fast as the best: the order of contenders is the order of preference. */
  readonly chosen: number
  /** How many times as long as the best each takes, in the middle of its turns beside it. */
  readonly behind: readonly number[]
}

/** Up to so much behind the best a contender is as fast: another run of the same probe would say so. */
export const margin = 1.05

export const middle = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]
export const mean = (values: readonly number[]): number =>
  Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length)

export function preferred(turns: Turns): Preference {
  const ratio = (a: number, b: number) =>
    mean(turns[0].map((_, work) => middle(turns.map(t => t[work][a] / t[work][b]))))
  const contenders = turns[0][0].map((_, i) => i)
  const best = contenders.reduce((best, i) => (ratio(best, i) > 1 ? i : best))
  const behind = contenders.map(i => ratio(i, best))
  return { chosen: behind.findIndex(times => times <= margin), behind }
}
