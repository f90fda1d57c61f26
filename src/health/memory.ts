/** Memory that is so full that making room for more takes time. */
import { clause, found } from './phrases.js'
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
    const peak = peakBytes === undefined ? '' : clause('.peak', { peak: (peakBytes / 2 ** 30).toFixed(1) })
    const numbers = { retries, ...(peakBytes !== undefined && { peakBytes }) }
    return [
      found(
        'memory/allocator',
        { step: last.step, severity: 'warning', where: clause('.at-allocator'), numbers },
        { retries, steps: lines.length, peak },
      ),
    ]
  })
