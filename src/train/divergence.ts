/**
 * What went wrong with a run that still takes steps: steps that are skipped because their gradient norm is no number or too
 * large, a loss that is no number, and a loss far above that of a model that has learned nothing.
 */
import { error, type Problem, type Scalars, warning } from '../base/index.js'
import type { StepResult } from '../engine/index.js'
import { type Job, mostSkipsOf, type Training } from '../plan/index.js'

const remedy = 'try a smaller lr, a warm-up, or clip'

/** Why the run must not go on after a step; `before`: the scalars before it. */
export const brokenBy = (
  training: Pick<Training, 'mostSkips' | 'lossScale'>,
  before: Scalars<number>,
  result: StepResult,
  skipping: Skips,
): Problem[] =>
  result.skipped
    ? [...leastScale(training, before, result, skipping), ...tooManySkips(training, skipping)].slice(0, 1)
    : lostLoss(result.loss, skipping.step)

/** Of a step that was taken; steps count from 1. */
const lostLoss = (loss: number, step: number): Problem[] =>
  Number.isFinite(loss) ? [] : [error('training/loss', 'training', `the loss of step ${step} is ${loss}`, remedy)]

/** Why a step with such a gradient norm was skipped, and what became of the scale. */
export function whySkipped(
  { skipAbove }: Pick<Training, 'skipAbove'>,
  norm: number,
  { scale, normLimit = Number.POSITIVE_INFINITY }: { scale?: StepResult['scale'] | undefined; normLimit?: number },
): string {
  if (Number.isFinite(norm) && norm >= normLimit)
    return `gradient norm ${norm.toPrecision(3)} is a spike: by the steps before it should be below ${normLimit.toPrecision(3)}`
  if (Number.isFinite(norm) && skipAbove !== undefined)
    return `gradient norm ${norm.toPrecision(3)} is not below ${skipAbove}`
  const { before, after } = scale ?? { before: 1, after: 1 }
  return `gradient norm is not finite${before === after ? '' : `, scale ${before} -> ${after}`}`
}

export interface Skips {
  /** How many in a row, the last of them this step. */
  readonly skips: number
  readonly step: number
  readonly why: string
}

/** Why a run whose steps are skipped one after the other must not go on. */
export function tooManySkips(
  training: Pick<Training, 'mostSkips' | 'lossScale'>,
  { skips, step, why }: Skips,
): Problem[] {
  if (skips < mostSkipsOf(training)) return []
  const which = skips > 1 ? `steps ${step - skips + 1} to ${step} were skipped` : `step ${step} was skipped`
  const message = `${which}: ${why}; parameters and optimizer are as step ${step - skips} left them`
  return [
    error('training/norm', 'training.mostSkips', message, `${remedy}, look at the data of these steps, or allow more`),
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
  const message = `the gradients of step ${step} are not finite, and the loss scale is at its minimum, ${lossScale.min}`
  const instead = `they overflow by themselves: ${remedy}, or bf16, which has the range of f32 (what was trained in bf16 often does not fit f16)`
  return [error('training/scale', 'training.lossScale.min', message, instead)]
}

/** Above so many times the loss of a model that has learned nothing, a run diverges. */
const most = 2
/** The last losses that are judged together. */
const last = 5

/**
 * The loss of a model that has learned nothing: of one that gives every token the same chance, or answers zeros to the
 * vectors of the synthetic task. A run from fresh weights may begin above it.
 */
const ignorantLoss = ({ model }: Job): number => ('vocab' in model ? Math.log(model.vocab) : 0.25)

/** The loss that a run which learns stays below; `first` is that of the first step from fresh weights. */
export const divergenceLimit = (job: Job, first = 0): number => most * Math.max(first, ignorantLoss(job))

const message = (what: string, loss: number, limit: number): string =>
  `the run diverges: ${what} is ${loss.toPrecision(4)}, that of a model that has learned nothing ${(limit / most).toPrecision(4)}`

/** For the step in which a loss first rises so far. */
export const risingLoss = (step: number, loss: number, limit: number): Problem =>
  warning('training/diverged', 'training', message(`the loss of step ${step}`, loss, limit), remedy)

/** For the end of a run: what its last losses say. */
export function divergenceOf(losses: readonly number[], limit: number): Problem[] {
  const judged = losses.slice(-last)
  const mean = judged.reduce((sum, loss) => sum + loss, 0) / judged.length
  const what = judged.length > 1 ? `the mean loss of the last ${judged.length} steps` : 'the last loss'
  return mean > limit ? [error('training/diverged', 'training', message(what, mean, limit), remedy)] : []
}
