/** Units and experts that no longer learn. What a run says of them it found in the optimizer's means of gradients. */
import type { HealthEvent } from './event.js'
import { found } from './phrases.js'
import type { StepLine } from './run-reader.js'
import { once, type RunFacts, type Watch } from './watch.js'

/** Steps after which what is still dead is named again. */
const silence = 256

export function watchDead({ path }: RunFacts): Watch {
  const first = new Map<string, (step: number) => boolean>()
  return ({ step, dead }: StepLine): HealthEvent[] => {
    if (!dead) return []
    const { layer, units, of, experts = [], steps } = dead
    if (!first.has(layer)) first.set(layer, once(silence))
    if (!first.get(layer)!(step)) return []
    const facts = {
      ...{ step, severity: 'warning' as const, where: layer, numbers: { units, of, experts: experts.length, steps } },
      command: `lockstep check ${path}/job.json`,
    }
    if (experts.length === 0) return [found('deadUnits', facts, { units, of, steps })]
    return [found('deadUnits/experts', facts, { experts: { joint: 'and', of: experts }, steps })]
  }
}
