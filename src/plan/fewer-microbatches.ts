/** As few microbatches as fill a pipeline in the same way: warm-up, steady state and drain stay, and only rounds are left out. */
import type { Plan } from './schema.js'

/**
 * m = k x pp + r: a few whole rounds, at least of 8 microbatches where there were as many, and a rest where there was one, of 1 or 2 as it
 * was odd or even; for a pipeline that may be less deep.
 */
export function fewerMicrobatches({ microbatches, pp, schedule }: Plan, now = pp): number {
  if (typeof schedule !== 'string') return microbatches
  if (microbatches < pp) return Math.max(1, Math.ceil((microbatches * now) / pp))
  const rounds = Math.min(Math.floor(microbatches / pp), Math.max(2, Math.ceil(8 / now)))
  const rest = microbatches % pp
  return rounds * now + Math.min(rest, now - 1, 2 - (rest % 2))
}
