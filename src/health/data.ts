/** The data of a run: tokens that come again, and ranks that wait for them. */
import type { HealthEvent } from './event.js'
import { median } from './median.js'
import type { StepLine } from './run-reader.js'
import { mostly, type RunFacts, shareOf, type Watch, watchWindow } from './watch.js'

/** Of the samples of the last steps, those that came before. */
const repeats = 0.1
/** Passes from which on data that is seen again teaches less and less. */
const passes = 4

export function watchData({ job }: RunFacts): Watch {
  const within = watchWindow(lines => repeatedIn(lines, job?.training.globalBatch))
  let epoch = 0
  return line => {
    const now = line.cursor?.epoch ?? 0
    const passed = now >= passes && epoch < passes ? [passedAgain(line, now)] : []
    epoch = Math.max(epoch, now)
    return [...within(line), ...passed]
  }
}

function repeatedIn(lines: readonly StepLine[], globalBatch = Number.POSITIVE_INFINITY): HealthEvent[] {
  const total = (of: (line: StepLine) => number) => lines.reduce((sum, line) => sum + of(line), 0)
  const samples = total(line => line.globalBatch ?? globalBatch)
  const share = total(({ repeated = 0 }) => repeated) / samples
  if (share < repeats) return []
  return [
    {
      ...{ step: lines[lines.length - 1].step, event: 'dataRepeats', severity: 'warning' },
      message: `${(100 * share).toFixed(0)} % of the samples of the last ${lines.length} steps came before, in the first pass over the data`,
      numbers: { share },
      advice: 'the data holds the same text several times: remove what is double',
    },
  ]
}

const passedAgain = ({ step, cursor }: StepLine, epoch: number): HealthEvent => ({
  ...{ step, event: 'dataRepeats', severity: 'warning', where: 'epochs' },
  message: `the data has been passed ${epoch} times (${cursor?.samples} samples): what is repeated teaches less and less`,
  numbers: { epochs: epoch, samples: cursor?.samples ?? null },
  advice: 'take more data, or fewer steps; compare the loss with that of held-out data (training.evalEvery)',
})

/** Of a step, what making its data may take. */
const waits = 0.15
/** Seconds below which nobody would notice. */
const leastSeconds = 0.01

export const watchLoader = (_: RunFacts): Watch =>
  watchWindow(lines => {
    const shareIn = ({ loading = 0, seconds }: StepLine) => loading / seconds
    const share = median(lines.map(shareIn))
    const seconds = median(lines.map(({ loading = 0 }) => loading))
    if (seconds < leastSeconds) return []
    if (share < waits || !mostly(shareOf(lines, line => shareIn(line) > waits))) return []
    return [
      {
        ...{ step: lines[lines.length - 1].step, event: 'dataLoader', severity: 'warning' },
        message: `ranks wait ${(100 * share).toFixed(0)} % of a step for their data (${(1e3 * seconds).toPrecision(3)} ms)`,
        numbers: { share, seconds, gain: share },
        advice: 'tokenise once and train on token files (data.source: tokens.bin), on a faster disk',
      },
    ]
  })
