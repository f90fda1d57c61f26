/** The learning rate as Megatron is told it. */
import type { Job } from '../../plan/index.js'
import type { Flags } from './megatron.js'

const styles: Readonly<Record<string, string>> = { 'inverse-sqrt': 'inverse-square-root', wsd: 'WSD' }

export function rateFlags({ lrSchedule: s, steps }: Job['training']): Flags {
  return {
    'lr-decay-style': styles[s.kind] ?? s.kind,
    'min-lr': s.minLr,
    'lr-decay-iters': s.decaySteps ?? steps,
    'lr-warmup-iters': s.warmup,
    ...(s.warmup > 0 && { 'lr-warmup-init': s.warmupFrom ?? 0 }),
    ...(s.kind === 'wsd' && {
      'lr-wsd-decay-iters': s.cooldown ?? Math.ceil(steps / 10),
      'lr-wsd-decay-style': (s.cooldownShape ?? 'linear').replace('-', '_'),
    }),
  }
}
