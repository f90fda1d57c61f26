/** Runs that do not learn: a loss that rises and stays there, a loss scale that cannot do its work. */
import type { HealthEvent } from './event.js'
import { median } from './median.js'
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
    const said = lr === undefined ? '' : `; the learning rate is ${lr.toPrecision(3)}`
    return [
      {
        ...{ step, event: 'diverges', severity: 'error' },
        message: `the loss rises: ${now.toFixed(3)} in the last ${few} steps, ${lowest.toFixed(3)} around step ${at}${said}`,
        numbers: { loss: now, lowest, since: at, ...(lr !== undefined && { lr }) },
        advice: `go back to a checkpoint of about step ${at} with a third of the lr, a longer warm-up, or clip`,
      },
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
  return {
    ...{ step: lines[lines.length - 1].step, event: 'scaleStuck', severity: 'warning' },
    message: `the loss scale has been at its minimum, ${min}, for ${lines.length} steps: small gradients vanish in 16 bits`,
    numbers: { scale: min, steps: lines.length },
    advice: 'gradients overflow by themselves: try a smaller lr, clip, or precision bf16, which has the range of f32',
  }
}

function overflowing(lines: readonly StepLine[]): HealthEvent | undefined {
  const share = shareOf(lines, ({ skipped }) => skipped !== undefined)
  const [firstScale, lastScale] = [lines[0].scale ?? 1, lines[lines.length - 1].scale ?? 1]
  // A scaler that begins far too high falls once at each overflow, and that is its work.
  if (share < 0.25 || lastScale < firstScale / 2 ** (0.75 * share * lines.length)) return undefined
  return {
    ...{ step: lines[lines.length - 1].step, event: 'scaleStuck', severity: 'warning' },
    message: `${(100 * share).toFixed(0)} % of the last ${lines.length} steps overflowed and were skipped; the scale went from ${firstScale} to ${lastScale}`,
    numbers: { share, from: firstScale, to: lastScale },
    advice: 'let the scale grow less often (training.lossScale.interval), or take precision bf16',
  }
}
