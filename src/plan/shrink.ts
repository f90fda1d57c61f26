/**
 * A job too large to be interpreted, made small enough: the same plan (mesh, schedule, ZeRO, recompute, layer split)
 * over a narrower model, shorter sequences and a smaller batch. Head counts stay, so tp is factored as before; every
 * width stays divisible by what splits it. If there are too many ranks, dp goes down to 2, to 4 where it holds experts and copies
 * of them, and layers to one a stage. With few tokens chance alone would overflow the room for rows, so there is room for all.
 */

import type { LlamaConfig, ModelConfig } from '../model/index.js'
import { fewerLayers } from './fewer-layers.js'
import { fewerExperts, fewerRanks } from './fewer-ranks.js'
import { stagesOf } from './layers.js'
import { fewTokens } from './rule.js'
import type { Job, Plan } from './schema.js'

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
  const plan = { ...job.plan, ...fewerCopies(job) }
  const layered = fewLayers(job, plan)
  const few = fewTokens(job, plan)
  const model = narrower(layered, plan, few.seq)
  const training = { ...job.training, seq: few.seq, batchRamp: undefined, globalBatch: plan.dp * plan.microbatches }
  const planned = { ...plan, ...few.plan, layers: layered.plan.layers }
  const small: Job = { ...job, model, training, plan: planned, ...(few.data && { data: few.data }) }
  return { job: small, changes: differences(job, small) }
}

/** Two copies of everything; beside them two ranks of dp that hold different experts, or parts of each, where some do. */
function fewerCopies({ model, plan }: Job): Partial<Plan> {
  const { dp, ep, etp } = fewerRanks(plan, 'kvHeads' in model ? model.kvHeads : undefined, (factor, ranks) =>
    factor === 'dp' ? 2 : ranks,
  )
  return { dp, ep, etp, ...roomForAll(model) }
}

export const roomForAll = (model: ModelConfig): Partial<Plan> => ('moe' in model && model.moe ? { rows: 'worst' } : {})

/** At most one layer of a kind a stage, unless the plan lists them. */
function fewLayers(job: Job, small: Plan): Job {
  const { model, plan } = job
  if (plan.layers !== 'even' || stagesOf(plan) * small.dp * plan.tp <= 16) return job
  const fewer = fewerLayers(job, plan)
  return { ...job, model: { ...model, ...fewer.model } as ModelConfig, plan: { ...plan, layers: fewer.split } } // of the same family
}

function narrower({ model, training }: Job, plan: Plan, seq: number): ModelConfig {
  const { tp } = plan
  const ffn = Math.min(model.ffn, 2 * tp)
  if (model.family === 'mlp') return { ...model, embed: Math.min(model.embed, 8), ffn }
  const vocab = Math.min(model.vocab, tp * Math.ceil(8 / tp))
  const embed = Math.min(model.embed, model.heads * headDim)
  if (model.family === 'gpt') return { ...model, embed, ffn, vocab }
  const tokens = [training.seq, seq] as const
  const experts = fewerExperts(model, { from: plan, to: plan, width: 2, seq: tokens })
  const narrow = { headDim: Math.min(model.headDim, headDim), ...narrowLatent(model, headDim) }
  return { ...model, embed, ffn, vocab, ...narrow, ...nearer(model, tokens), ...experts }
}

/** A window that reaches as many ranks back as it did. */
export const nearer = ({ window }: LlamaConfig, [from, to]: readonly [number, number]): Partial<LlamaConfig> =>
  window === undefined ? {} : { window: Math.min(window, 1 + Math.ceil(((window - 1) * to) / from)) }

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
    ...fieldsOf('model', job.model),
    ...prefixed('training', job.training),
    ...prefixed('plan', job.plan),
    ...(job.data?.documents && { 'data.documents.pad': job.data.documents.pad }),
  })
  const [from, to] = [flat(before), flat(after)]
  return Object.keys(to).flatMap(path => (from[path] !== to[path] ? [{ path, from: from[path], to: to[path] }] : []))
}

const prefixed = (name: string, record: object): Record<string, unknown> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [`${name}.${key}`, value]))

/** Those of experts and of latent attention one by one. */
const fieldsOf = (name: string, record: object): Record<string, unknown> =>
  Object.assign(
    {},
    ...Object.entries(prefixed(name, record)).map(([path, value]) =>
      typeof value === 'object' && value !== null && !Array.isArray(value) ? fieldsOf(path, value) : { [path]: value },
    ),
  )
