/** The data of a run: tokens that come again, and ranks that wait for them. */
import type { HealthEvent } from './event.js'
import { median } from './median.js'
import { clause, found, percentOf } from './phrases.js'
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
    found(
      'dataRepeats/samples',
      { step: lines[lines.length - 1].step, severity: 'warning', numbers: { share } },
      { share: percentOf(share), steps: lines.length },
    ),
  ]
}

const passedAgain = ({ step, cursor }: StepLine, epochs: number): HealthEvent =>
  found(
    'dataRepeats/epochs',
    { step, severity: 'warning', where: clause('.at-epochs'), numbers: { epochs, samples: cursor?.samples ?? null } },
    { epochs, samples: `${cursor?.samples}` },
  )

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
      found(
        'dataLoader',
        { step: lines[lines.length - 1].step, severity: 'warning', numbers: { share, seconds, gain: share } },
        { share: percentOf(share), ms: (1e3 * seconds).toPrecision(3) },
      ),
    ]
  })
