/** The learning rate of a step, by how many were taken before it: up to lr over the warm-up, then as its schedule says. */
import type { LrSchedule } from './optimizer-schema.js'
import type { Training } from './schema.js'

/** How much of lr - minLr is left, from the beginning of the fall (0) to its end (1). */
const falls = {
  linear: progress => 1 - progress,
  cosine: progress => (1 + Math.cos(Math.PI * progress)) / 2,
  exponential: progress => 2 * 0.5 ** progress - 1,
  'minus-sqrt': progress => 1 - Math.sqrt(progress),
} as const satisfies Readonly<Record<string, (progress: number) => number>>

type Rate = Pick<Training, 'optimizer' | 'lrSchedule' | 'steps'>

/** The learning rate after a number of applied steps, by the schedule of the training. */
export function lrAt({ optimizer: { lr }, lrSchedule, steps }: Rate, taken: number): number {
  const { kind, warmup, warmupFrom, minLr, cooldown, cooldownShape = 'linear', decaySteps: end = steps } = lrSchedule
  if (taken < warmup)
    return warmupFrom === undefined ? (lr * (taken + 1)) / warmup : warmupFrom + ((lr - warmupFrom) * taken) / warmup
  const between = (left: number) => minLr + (lr - minLr) * left
  const since = (start: number) => Math.min(1, Math.max(0, taken - start) / Math.max(1, end - start))
  const after: Readonly<Record<LrSchedule['kind'], () => number>> = {
    constant: () => lr,
    linear: () => between(falls.linear(since(warmup))),
    cosine: () => between(falls.cosine(since(warmup))),
    'inverse-sqrt': () => Math.max(minLr, lr * Math.sqrt(Math.max(1, warmup) / Math.max(1, taken))),
    wsd: () => between(falls[cooldownShape](since(Math.max(0, end - cooldownSteps({ cooldown, end }))))),
  }
  return kind !== 'constant' && taken > end ? minLr : after[kind]()
}

/** A tenth of all steps unless it is said. */
export const cooldownSteps = ({ cooldown, end }: { cooldown?: number | undefined; end: number }): number =>
  cooldown ?? Math.ceil(end / 10)
