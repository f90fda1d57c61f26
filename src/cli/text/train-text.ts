/** What `lockstep train` says before its first step and after its last. */
import { counted, duration, scaled, showBytes, showTime, wrapped } from '../../base/index.js'
import { loadKernels, nativeMissing, type Trainer } from '../../engine/index.js'
import { peakSize, productRate } from '../../engine/native/kernels/peak.js'
import type { Prediction } from '../../health/index.js'
import { kinds } from '../../ir/index.js'
import { flopsPerToken } from '../../model/index.js'
import { thisHost } from '../../node/index.js'
import { type Job, worldOfPlan } from '../../plan/index.js'
import { beginningText, type ChoiceFile, oneRankLosses, peaksOf, type Session } from '../../train/index.js'
import { paragraph } from '../commands/check.js'
import type { Monitors } from '../files/monitors.js'
import type { RunFolder } from '../files/run-folder.js'

/** What is printed next to a session when it begins. */
interface Introduced {
  readonly folder: RunFolder
  readonly choices: ChoiceFile | undefined
  readonly monitors: Monitors
  readonly prediction: Prediction | undefined
}

/** Says why WebAssembly runs, where native kernels are missing. */
export const kernelsText = ({ trainer, kernels }: Session): string => {
  const missing = kernels === 'wasm' ? nativeMissing() : undefined
  return missing === undefined ? trainer.description : `${trainer.description} (no native kernels: ${missing})`
}

export const introduction = (session: Session, { folder, choices, monitors, prediction }: Introduced): string[] => {
  const { job, trainer, dataset, beginning } = session
  return [
    ...wrapped(paragraph(job)),
    `Data: ${dataset.description}.`,
    ...(beginning ? [beginningText(beginning)] : []),
    `Kernels: ${kernelsText(session)}.`,
    `Run folder: ${folder.path}`,
    ...(choices ? [`Expert routing is recorded in ${choices.path}.`] : []),
    ...monitors.notes,
    ...(prediction ? [predictionLine(prediction)] : []),
    ...sharing(job, trainer),
    ...patience(job, trainer),
  ]
}

const predictionLine = ({ cluster, file, seconds }: Prediction): string =>
  `Predicted: ${showTime(seconds)}/step (${file ?? cluster}).`

/** The baseline of MFU: what the matmul kernel reaches on this machine. */
export function peakOf({
  job,
  kernels,
  trainer,
}: Session): { readonly flops: number; readonly words: string } | undefined {
  if (!trainer.concurrent || kernels === 'reference') return undefined
  const rate = productRate(loadKernels(kernels))
  const cores = Math.min(worldOfPlan(job.plan), thisHost().cores)
  return {
    flops: cores * rate,
    words: `MFU baseline: ${counted(cores, 'core')} x ${scaled(rate, ' ')}FLOP/s (measured ${peakSize}^3 matmul).`,
  }
}

function sharing({ plan }: Job, { concurrent }: Trainer): string[] {
  const [ranks, { cores }] = [worldOfPlan(plan), thisHost()]
  return concurrent && ranks > cores
    ? [
        `${ranks} ranks share ${counted(cores, 'core')}: time spent waiting for a core counts as waiting or communication.`,
      ]
    : []
}

/** What the interpreter does in a second, about; it is a definition, not an engine. */
const interpretedFlops = 4e7

function patience({ model, training }: Job, { concurrent }: Trainer): string[] {
  const seconds = (training.globalBatch * training.seq * flopsPerToken(model, training.seq)) / interpretedFlops
  return concurrent || seconds < 10
    ? []
    : [`The reference interpreter is for small models: about ${duration(seconds)}/step.`]
}

/** The measured peak of each category, on the rank where it is largest, against the prediction. */
export function memoryLine(session: Session): string {
  const { measured: peaks, wrong } = peaksOf(session)
  const most = kinds.flatMap(kind => {
    const bytes = peaks.reduce((most, peak) => Math.max(most, peak[kind]), 0)
    return bytes > 0 ? [`${kind} ${showBytes(bytes)}`] : []
  })
  const verdict =
    wrong < 0 ? 'equal to the prediction, to the byte, on every rank' : `NOT as predicted on rank ${wrong}`
  return wrapped(`peak memory per rank: ${most.join(', ')} (${verdict})`).join('\n')
}

export async function besideOneRank(session: Session, firstLosses: readonly number[]): Promise<string> {
  const losses = await oneRankLosses(session, firstLosses.length)
  const worst = losses.reduce((most, loss, i) => Math.max(most, Math.abs(firstLosses[i] - loss) / Math.abs(loss)), 0)
  return `single rank on the same data: losses of the first ${counted(losses.length, 'step')} differ by at most ${worst.toExponential(1)} (relative)`
}
