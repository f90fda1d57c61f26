/**
 * What went wrong with a run that still takes steps: a loss or a gradient norm that is no number, and a loss far above that
 * of a model that has learned nothing. A norm that is not finite has already spoilt the parameters it scaled.
 */
import { error, type Problem, warning } from '../base/index.js'
import type { StepResult } from '../engine/index.js'
import type { Program } from '../ir/index.js'
import type { Job } from '../plan/index.js'

const remedy = 'try a smaller lr, a warm-up, or clip'

/** Why the run must not go on after a step; steps count from 1. */
export function brokenBy({ results }: Program, { loss, normSquared }: StepResult, step: number): Problem[] {
  const hasNorm = Object.keys(results.normSquared).length > 0
  return [
    ...(Number.isFinite(loss)
      ? []
      : [error('training/loss', 'training', `the loss of step ${step} is ${loss}`, remedy)]),
    ...(!hasNorm || Number.isFinite(normSquared)
      ? []
      : [
          error(
            'training/norm',
            'training',
            `the gradient norm of step ${step} is ${Math.sqrt(normSquared)}, and the parameters it updated are lost`,
            remedy,
          ),
        ]),
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
