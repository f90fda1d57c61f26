/** Memory that is so full that making room for more takes time. */
import type { RunFacts, Watch } from './watch.js'
import { watchWindow } from './watch.js'

/** In the last steps together. */
const leastRetries = 4

export const watchMemory = (_: RunFacts): Watch =>
  watchWindow(lines => {
    const [first, last] = [lines[0], lines[lines.length - 1]]
    const retries = (last.allocationRetries ?? 0) - (first.allocationRetries ?? 0)
    if (retries < leastRetries) return []
    const { peakBytes } = last
    const held = peakBytes === undefined ? '' : `, with ${(peakBytes / 2 ** 30).toFixed(1)} GiB at the peak`
    return [
      {
        ...{ step: last.step, event: 'memory', severity: 'warning', where: 'allocator' },
        message: `the device ran out of memory ${retries} times in the last ${lines.length} steps${held}: all of what was cached is given back and asked for again`,
        numbers: { retries, ...(peakBytes !== undefined && { peakBytes }) },
        advice: 'take less memory: lockstep doctor names the cheapest changes',
      },
    ]
  })
