/**
 * A shuffle that is computed, not stored: a Feistel network over the numbers below n, keyed by seed, name and step
 * (here: the epoch). Any place of any epoch is found at once, so resuming needs a number and no list.
 */
import { hashName, philox, type Source } from '../base/index.js'

const rounds = 6

/** A one-to-one map of 0 ... n - 1 onto itself. */
export function permutation(n: number, { seed, name, step = 0 }: Source): (index: number) => number {
  if (!(Number.isSafeInteger(n) && n >= 1 && n <= 2 ** 52)) throw new RangeError(`cannot shuffle ${n} things`)
  const half = Math.max(1, Math.ceil(Math.log2(n) / 2))
  const side = 2 ** half
  const key = [seed >>> 0, hashName(name)] as const
  const turn = (right: number, round: number) => philox([right, step, round, 2], key)[0] % side
  const once = (index: number): number => {
    let [left, right] = [Math.floor(index / side), index % side]
    for (let round = 0; round < rounds; round++) [left, right] = [right, (left + turn(right, round)) % side]
    return left * side + right
  }
  return index => {
    // The network shuffles a square a little larger than n: walk on until back inside.
    let at = once(index)
    while (at >= n) at = once(at)
    return at
  }
}
