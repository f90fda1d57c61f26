/**
 * Spikes of loss and gradient norm. A step is judged by the accepted ones before it: the line through the middles of their
 * two halves says what to expect, their middle distance from it how much they vary. What was flagged, skipped or is not
 * finite is not accepted, so one spike hides no other.
 */
import type { HealthEvent } from './event.js'
import { median, spreadAround } from './median.js'
import { found } from './phrases.js'
import type { StepLine } from './run-reader.js'
import { once, type Watch } from './watch.js'

/** Accepted steps that a step is judged by, and how many there must be. */
export const mostAccepted = 64
export const leastAccepted = 32
/** Spikes that follow each other and still are some. */
export const mostInARow = 3
/** Deviations from which on a step is a spike. */
export const mostDeviations = 8
/** What logarithms of norms vary by at least. */
export const leastDeviation = 0.05

interface Series {
  readonly kind: 'lossSpike' | 'normSpike'
  readonly of: (line: StepLine) => number
  readonly shown: (value: number) => string
  /** What values vary by at least, of an expected one. */
  readonly floor: (expected: number) => number
}

const series: readonly Series[] = [
  {
    ...{ kind: 'lossSpike', of: ({ loss }) => loss, shown: loss => loss.toFixed(4) },
    floor: expected => 0.005 * Math.abs(expected),
  },
  {
    kind: 'normSpike',
    of: ({ gradientNorm = Number.NaN }) => Math.log(gradientNorm),
    shown: log => Math.exp(log).toPrecision(3),
    floor: () => leastDeviation,
  },
]

export function watchSpikes(): Watch {
  const watched = series.map(one => ({ one, accepted: [] as number[], spikes: 0 }))
  const first = once(mostAccepted)
  return line => [
    ...(Number.isFinite(line.loss) || !first(line.step) ? [] : [notFinite(line)]),
    ...skippedSpike(line),
    ...watched.flatMap(one => judged(one, line)),
  ]
}

const notFinite = ({ step }: StepLine): HealthEvent =>
  found('notFinite', { step, severity: 'error', numbers: { loss: null } })

/** Where the run skips spikes by itself, its steps say from which norm on. */
function skippedSpike({ step, gradientNorm = Number.NaN, normLimit, skipped }: StepLine): HealthEvent[] {
  if (skipped === undefined || normLimit === undefined || !(gradientNorm >= normLimit)) return []
  const words = { value: gradientNorm.toPrecision(3), limit: normLimit.toPrecision(3) }
  const numbers = { value: gradientNorm, limit: normLimit }
  return [found('normSpike/skipped', { step, severity: 'warning', numbers }, words)]
}

/** What is watched, the values it is judged by, and how many in a row were spikes. */
interface Watched {
  readonly one: Series
  readonly accepted: number[]
  spikes: number
}

function judged(watched: Watched, line: StepLine): HealthEvent[] {
  const { one, accepted } = watched
  const value = one.of(line)
  if (line.skipped !== undefined || !Number.isFinite(value)) return []
  const { expected, deviation } = expectedAfter(accepted)
  const deviations = (value - expected) / Math.max(deviation, one.floor(expected))
  const spikes = accepted.length >= leastAccepted && deviations > mostDeviations
  watched.spikes = spikes ? watched.spikes + 1 : 0
  // What stays is no spike but another level, by which the next steps are judged.
  if (watched.spikes > mostInARow) accepted.length = 0
  if (spikes) return watched.spikes > mostInARow ? [] : [spike(one, line.step, { value, expected, deviations })]
  accepted.push(value)
  if (accepted.length > mostAccepted) accepted.shift()
  return []
}

function spike(
  { kind, shown }: Series,
  step: number,
  { value, expected, deviations }: Record<string, number>,
): HealthEvent {
  const numbers = { value: Number(shown(value)), expected: Number(shown(expected)), deviations: Math.round(deviations) }
  const words = { value: shown(value), expected: shown(expected), deviations: deviations.toFixed(0) }
  return found(kind, { step, severity: 'warning', numbers }, words)
}

/** What the next value should be, and how far off values are. */
export function expectedAfter(values: readonly number[]): { readonly expected: number; readonly deviation: number } {
  const half = values.length >> 1
  const [early, late] = [median(values.slice(0, half)), median(values.slice(-half))]
  const slope = half > 0 ? (late - early) / (values.length - half) : 0
  const middle = values.length - 1 - (half - 1) / 2
  const at = (i: number) => late + slope * (i - middle)
  return {
    expected: at(values.length),
    deviation: spreadAround(
      0,
      values.map((value, i) => value - at(i)),
    ),
  }
}
