/** Loss scaling: what a job says of it as the program has it, and what makes no sense. */
import { type Problem, planPrecisionFacts, type Scalars, type Scaler, scalarsMoved } from '../base/index.js'
import { advised, refused } from './phrases.js'
import type { Rule } from './rule.js'
import type { LossScale } from './scaler-schema.js'
import type { Training } from './schema.js'

/** How the scale moves; undefined where nothing is scaled. */
export function scalerOf(lossScale: LossScale | undefined): Scaler | undefined {
  if (!lossScale) return undefined
  switch (lossScale.kind) {
    case 'static':
      return { kind: 'static' }
    case 'deepspeed': {
      const { initial: _, consecutive, ...numbers } = lossScale
      return { ...numbers, consecutive: Number(consecutive) }
    }
    default: {
      const { initial: _, ...numbers } = lossScale
      return numbers
    }
  }
}

/** The scalars of a job's program, with what they are before the first step. */
export function scalarStarts({ lossScale }: Pick<Training, 'lossScale'>): Scalars<number> {
  const starts = {
    taken: 0,
    scale: lossScale && Math.fround(firstScale(lossScale)),
    growth: 0,
    hysteresis: lossScale && 'hysteresis' in lossScale ? lossScale.hysteresis : 0,
  }
  return Object.fromEntries(scalarsMoved(scalerOf(lossScale)).map(name => [name, starts[name]]))
}

const firstScale = (of: LossScale): number => (of.kind === 'static' ? of.scale : of.initial)

/** Where the scale moves, many steps in a row may be skipped before it is right. */
export const mostSkipsOf = ({ mostSkips, lossScale }: Pick<Training, 'mostSkips' | 'lossScale'>): number =>
  mostSkips ?? (lossScale && lossScale.kind !== 'static' ? 64 : 3)

export const lossScale: Rule = function* ({ training, plan: { precision } }) {
  const { lossScale: scaling } = training
  if (scaling) yield* problemsOf(scaling)
  else if (planPrecisionFacts[precision].token === 'f16')
    yield refused('plan.precision', 'plan/precision/f16', { scaler: '{ kind: torch }' })
}

function* problemsOf(scaling: LossScale): Generator<Problem> {
  const path = 'training.lossScale'
  if ('min' in scaling && scaling.min > scaling.initial)
    yield refused(`${path}.min`, 'training/scale/least', { min: scaling.min, initial: scaling.initial })
  const factors = Object.entries({
    ...{ [scaling.kind === 'static' ? 'scale' : 'initial']: firstScale(scaling) },
    ...('min' in scaling && { min: scaling.min }),
    ...('growth' in scaling && { growth: scaling.growth }),
    ...('backoff' in scaling && { backoff: scaling.backoff }),
  })
  for (const [name, value] of factors)
    if (!Number.isInteger(Math.log2(value)))
      yield advised(`${path}.${name}`, 'training/scale/power', {
        ...{ name, value, near: 2 ** Math.round(Math.log2(value)) },
      })
}
