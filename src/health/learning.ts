/** Runs that do not learn: a loss that rises and stays there, a loss scale that cannot do its work. */
import type { HealthEvent } from './event.js'
import { median } from './median.js'
import { clause, found, percentOf } from './phrases.js'
import type { StepLine } from './run-reader.js'
import { once, type RunFacts, shareOf, type Watch } from './watch.js'

/** Losses whose middle is judged. */
const few = 8
/** How far that middle may rise above the lowest one before. */
const rise = (lowest: number): number => Math.max(0.3, 0.15 * Math.abs(lowest))

export function watchDivergence(): Watch {
  const losses: number[] = []
  let [lowest, at] = [Number.POSITIVE_INFINITY, 0]
  const first = once(4 * few)
  return ({ step, loss, lr, skipped }) => {
    if (skipped !== undefined || !Number.isFinite(loss)) return []
    losses.push(loss)
    if (losses.length > few) losses.shift()
    if (losses.length < few) return []
    const now = median(losses)
    if (now < lowest) [lowest, at] = [now, step]
    if (now <= lowest + rise(lowest) || !first(step)) return []
    const rate = lr === undefined ? '' : clause('.lr', { lr: lr.toPrecision(3) })
    return [
      found(
        'diverges',
        { step, severity: 'error', numbers: { loss: now, lowest, since: at, ...(lr !== undefined && { lr }) } },
        { loss: now.toFixed(3), steps: few, lowest: lowest.toFixed(3), since: at, lr: rate },
      ),
    ]
  }
}

/** Steps over which a scale is judged, and from which on: a scaler begins high, and its first steps look for the scale. */
const scaled = 32

export function watchScale({ job }: RunFacts): Watch {
  const { lossScale } = job?.training ?? {}
  const min = lossScale && 'min' in lossScale ? lossScale.min : lossScale?.kind === 'torch' ? 2 ** -14 : undefined
  const lines: StepLine[] = []
  const first = once(2 * scaled)
  return line => {
    if (line.scale === undefined) return []
    lines.push(line)
    if (lines.length > scaled) lines.shift()
    if (lines.length < scaled) return []
    const found = stuckAtLeast(lines, min) ?? overflowing(lines)
    return found && first(line.step) ? [found] : []
  }
}

function stuckAtLeast(lines: readonly StepLine[], min: number | undefined): HealthEvent | undefined {
  if (min === undefined || !lines.every(({ scale = 0 }) => scale <= min)) return undefined
  const numbers = { scale: min, steps: lines.length }
  return found('scaleStuck/least', { step: lines[lines.length - 1].step, severity: 'warning', numbers }, numbers)
}

function overflowing(lines: readonly StepLine[]): HealthEvent | undefined {
  const share = shareOf(lines, ({ skipped }) => skipped !== undefined)
  const [firstScale, lastScale] = [lines[0].scale ?? 1, lines[lines.length - 1].scale ?? 1]
  // A scaler that begins far too high falls once at each overflow, and that is its work.
  if (share < 0.25 || lastScale < firstScale / 2 ** (0.75 * share * lines.length)) return undefined
  const scales = { from: firstScale, to: lastScale }
  return found(
    'scaleStuck/overflows',
    { step: lines[lines.length - 1].step, severity: 'warning', numbers: { share, ...scales } },
    { share: percentOf(share), steps: lines.length, ...scales },
  )
}
