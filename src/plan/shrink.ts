/**
 * A job too large to be interpreted, made small enough: the same plan (mesh, schedule, ZeRO, recompute, layer split)
 * over a narrower model, shorter sequences and a smaller batch. Head counts stay, so tp is factored as before; every
 * width stays divisible by what splits it. If there are too many ranks, dp goes down to 2 and layers to one a stage.
 */
import type { LlamaConfig, ModelConfig } from '../model/index.js'
import { stagesOf } from './layers.js'
import { fewTokens } from './rule.js'
import type { Job } from './schema.js'

export interface Change {
  readonly path: string
  readonly from: unknown
  readonly to: unknown
}

export interface Shrunk {
  readonly job: Job
  readonly changes: readonly Change[]
}

const headDim = 2

export function shrink(job: Job): Shrunk {
  const plan = { ...job.plan, dp: Math.min(job.plan.dp, 2) }
  const layered = fewerLayers(job, plan)
  const model = narrower(layered.model, plan.tp)
  const few = fewTokens(job, plan)
  const training = { ...job.training, seq: few.seq, batchRamp: undefined, globalBatch: plan.dp * plan.microbatches }
  const planned = { ...plan, ...few.plan, layers: layered.layers }
  const small: Job = { ...job, model, training, plan: planned, ...(few.data && { data: few.data }) }
  return { job: small, changes: differences(job, small) }
}

/** At most one layer a stage, unless the plan lists them. */
function fewerLayers(
  { model, plan }: Job,
  { dp }: { dp: number },
): { model: ModelConfig; layers: Job['plan']['layers'] } {
  const stages = stagesOf(plan)
  const few = plan.layers === 'even' && stages * dp * plan.tp > 16 ? Math.min(model.layers, stages) : model.layers
  return { model: { ...model, layers: few }, layers: plan.layers }
}

function narrower(model: ModelConfig, tp: number): ModelConfig {
  const ffn = Math.min(model.ffn, 2 * tp)
  if (model.family === 'mlp') return { ...model, embed: Math.min(model.embed, 8), ffn }
  const vocab = Math.min(model.vocab, tp * Math.ceil(8 / tp))
  const embed = Math.min(model.embed, model.heads * headDim)
  if (model.family === 'gpt') return { ...model, embed, ffn, vocab }
  return { ...model, embed, ffn, vocab, headDim: Math.min(model.headDim, headDim), ...narrowLatent(model, headDim) }
}

/** Latent attention with heads of so many numbers that have positions, and as many that have none. */
export function narrowLatent({ mla }: LlamaConfig, width: number): Partial<LlamaConfig> {
  if (!mla) return {}
  const [ropeDim, plainDim, valueDim] = [mla.ropeDim, mla.plainDim, mla.valueDim].map(size => Math.min(size, width))
  const keyValueRank = Math.min(mla.keyValueRank, 2 * width)
  const queryRank = mla.queryRank && { queryRank: Math.min(mla.queryRank, 2 * width + 1) }
  return { headDim: plainDim + ropeDim, mla: { ...queryRank, keyValueRank, ropeDim, plainDim, valueDim } }
}

export function differences(before: Job, after: Job): Change[] {
  const flat = (job: Job): Record<string, unknown> => ({
    ...prefixed('model', job.model),
    ...prefixed('training', job.training),
    ...prefixed('plan', job.plan),
    ...(job.data?.documents && { 'data.documents.pad': job.data.documents.pad }),
  })
  const [from, to] = [flat(before), flat(after)]
  return Object.keys(to).flatMap(path => (from[path] !== to[path] ? [{ path, from: from[path], to: to[path] }] : []))
}

const prefixed = (name: string, record: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [`${name}.${key}`, value]))
