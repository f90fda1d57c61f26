/**
 * What went wrong with a run that still takes steps: steps that are skipped because their gradient norm is no number or too
 * large, a loss that is no number, and a loss far above that of a model that has learned nothing.
 */
import { error, type Problem, warning } from '../base/index.js'
import type { Job, Training } from '../plan/index.js'

const remedy = 'try a smaller lr, a warm-up, or clip'

/** Why the run must not go on after a step that was taken; steps count from 1. */
export const brokenBy = (loss: number, step: number): Problem[] =>
  Number.isFinite(loss) ? [] : [error('training/loss', 'training', `the loss of step ${step} is ${loss}`, remedy)]

/** Why a step with such a gradient norm was skipped. */
export const whySkipped = ({ skipAbove }: Pick<Training, 'skipAbove'>, norm: number): string =>
  Number.isFinite(norm) && skipAbove !== undefined
    ? `gradient norm ${norm.toPrecision(3)} is not below ${skipAbove}`
    : 'gradient norm is not finite'

export interface Skips {
  /** How many in a row, the last of them this step. */
  readonly skips: number
  readonly step: number
  readonly why: string
}

/** Why a run whose steps are skipped one after the other must not go on. */
export function tooManySkips({ mostSkips }: Pick<Training, 'mostSkips'>, { skips, step, why }: Skips): Problem[] {
  if (skips < mostSkips) return []
  const which = skips > 1 ? `steps ${step - skips + 1} to ${step} were skipped` : `step ${step} was skipped`
  const message = `${which}: ${why}; parameters and optimizer are as step ${step - skips} left them`
  return [
    error('training/norm', 'training.mostSkips', message, `${remedy}, look at the data of these steps, or allow more`),
  ]
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
