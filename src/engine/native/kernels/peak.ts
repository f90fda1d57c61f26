/** What a core of this machine reaches in a large product, measured in a moment: what the speed of a run is relative to. */
import { KernelBed, productWords } from './bed.js'
import type { Kernels } from './target.js'

/** The product is peakSize x peakSize x peakSize: large enough that its speed is that of the arithmetic. */
export const peakSize = 512
const leastSeconds = 0.05
/** Where others have the cores the first few are slow together: so many are timed, for as long as that is a moment. */
const [leastTimes, mostSeconds] = [20, 0.4]

/** FLOP/s of one thread. */
export function productRate(kernels: Kernels): number {
  const n = peakSize
  const bed = new KernelBed(kernels, 3 * (4 * n * n + 64))
  const [a, b, out] = [0, 1, 2].map(() => bed.operand(n * n))
  for (const { values } of [a, b]) values.fill(1 / n)
  const words = productWords({ a, b, out }, { m: n, n, k: n })
  let [best, spent, times] = [bed.time('matmul', words), 0, 0]
  while (spent < leastSeconds || (times < leastTimes && spent < mostSeconds)) {
    const seconds = bed.time('matmul', words)
    times++
    spent += Math.max(seconds, leastSeconds / 100)
    if (seconds > 0) best = Math.min(best, seconds)
  }
  return (2 * n ** 3) / best
}
