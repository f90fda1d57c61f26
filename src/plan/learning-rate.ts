/** The learning rate of a step, by how many were taken before it: up to lr over the warm-up, then constant, or down so that after the last step it would be minLr. */
import type { LrSchedule, Training } from './schema.js'

/** How much of lr - minLr is left, from the end of the warm-up (0) to the end of the run (1). */
const shapes: Readonly<Record<LrSchedule['kind'], (progress: number) => number>> = {
  constant: () => 1,
  linear: progress => 1 - progress,
  cosine: progress => (1 + Math.cos(Math.PI * progress)) / 2,
}

export function lrAt(
  {
    optimizer: { lr },
    lrSchedule: { kind, warmup, minLr },
    steps,
  }: Pick<Training, 'optimizer' | 'lrSchedule' | 'steps'>,
  taken: number,
): number {
  if (taken < warmup) return (lr * (taken + 1)) / warmup
  const progress = Math.min(1, (taken - warmup) / Math.max(1, steps - warmup))
  const floor = kind === 'constant' ? 0 : minLr
  return floor + (lr - floor) * shapes[kind](progress)
}
