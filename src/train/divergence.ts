/**
 * What went wrong with a run that still takes steps: steps that are skipped because their gradient norm is no number or too
 * large, a loss that is no number, and a loss far above that of a model that has learned nothing.
 */
import { english, type Problem, type Scalars, type Spoken, speak } from '../base/index.js'
import type { StepResult } from '../engine/index.js'
import { type Job, mostSkipsOf, type Training } from '../plan/index.js'
import { runAdvised, runClause, runPhrases, runRefused } from './phrases.js'

/** Why the run must not go on after a step; `before`: the scalars before it. */
export const brokenBy = (
  training: Pick<Training, 'mostSkips' | 'lossScale' | 'skipAbove'>,
  before: Scalars<number>,
  result: StepResult,
  skipping: Skips,
): Problem[] =>
  result.skipped
    ? [...leastScale(training, before, result, skipping), ...tooManySkips(training, result, skipping)].slice(0, 1)
    : lostLoss(result.loss, skipping.step)

/** Of a step that was taken; steps count from 1. */
const lostLoss = (loss: number, step: number): Problem[] =>
  Number.isFinite(loss) ? [] : [runRefused('training', 'training/loss', { step, loss: String(loss) })]

type Limits = { readonly scale?: StepResult['scale'] | undefined; readonly normLimit?: number }

/** Why a step with such a gradient norm was skipped, and what became of the scale. */
export const whySkipped = (training: Pick<Training, 'skipAbove'>, norm: number, limits: Limits): string =>
  speak(saySkipped(training, norm, limits), english(runPhrases))[0]

function saySkipped(
  { skipAbove }: Pick<Training, 'skipAbove'>,
  norm: number,
  { scale, normLimit = Number.POSITIVE_INFINITY }: Limits,
): Spoken {
  if (Number.isFinite(norm) && norm >= normLimit)
    return runClause('.skipped/spike', { norm: norm.toPrecision(3), limit: normLimit.toPrecision(3) })
  if (Number.isFinite(norm) && skipAbove !== undefined)
    return runClause('.skipped/above', { norm: norm.toPrecision(3), limit: skipAbove })
  const { before, after } = scale ?? { before: 1, after: 1 }
  return before === after ? runClause('.skipped/not-finite') : runClause('.skipped/scale', { before, now: after })
}

export interface Skips {
  /** How many in a row, the last of them this step. */
  readonly skips: number
  readonly step: number
}

/** Why a run whose steps are skipped one after the other must not go on. */
export function tooManySkips(
  training: Pick<Training, 'mostSkips' | 'lossScale' | 'skipAbove'>,
  { normSquared, scale }: StepResult,
  { skips, step }: Skips,
): Problem[] {
  if (skips < mostSkipsOf(training)) return []
  const said = { step, why: saySkipped(training, Math.sqrt(normSquared), { scale }), left: step - skips }
  return [
    skips > 1
      ? runRefused('training.mostSkips', 'training/norm/steps', { ...said, first: step - skips + 1 })
      : runRefused('training.mostSkips', 'training/norm/step', said),
  ]
}

/**
 * Why a run must not go on whose gradients overflow although the scale is at its minimum and would fall. `before`: the scalars
 * before the step.
 */
export function leastScale(
  { lossScale }: Pick<Training, 'lossScale'>,
  before: Scalars<number>,
  { normSquared }: Pick<StepResult, 'normSquared'>,
  { step }: Pick<Skips, 'step'>,
): Problem[] {
  if (!lossScale || !('min' in lossScale) || Number.isFinite(normSquared)) return []
  const { scale, hysteresis = 0 } = before
  if (scale !== Math.fround(lossScale.min) || hysteresis > 1) return []
  return [runRefused('training.lossScale.min', 'training/scale', { step, min: lossScale.min })]
}

/** Above so many times the loss of a model that has learned nothing, a run diverges. */
const most = 2
/** The last losses that are judged together. */
export const judgedLosses = 5

/**
 * The loss of a model that has learned nothing: of one that gives every token the same chance, or answers zeros to the
 * vectors of the synthetic task. A run from fresh weights may begin above it.
 */
const ignorantLoss = ({ model }: Job): number => ('vocab' in model ? Math.log(model.vocab) : 0.25)

/** The loss that a run which learns stays below; `first` is that of the first step from fresh weights. */
export const divergenceLimit = (job: Job, first = 0): number => most * Math.max(first, ignorantLoss(job))

const beside = (loss: number, limit: number) => ({
  loss: loss.toPrecision(4),
  ignorant: (limit / most).toPrecision(4),
})

/** For the step in which a loss first rises so far. */
export const risingLoss = (step: number, loss: number, limit: number): Problem =>
  runAdvised('training', 'training/diverged/step', { step, ...beside(loss, limit) })

/** For the end of a run: what its last losses say. */
export function divergenceOf(losses: readonly number[], limit: number): Problem[] {
  const judged = losses.slice(-judgedLosses)
  const mean = judged.reduce((sum, loss) => sum + loss, 0) / judged.length
  if (!(mean > limit)) return []
  const said = beside(mean, limit)
  return [
    judged.length > 1
      ? runRefused('training', 'training/diverged/mean', { steps: judged.length, ...said })
      : runRefused('training', 'training/diverged/last', said),
  ]
}
