/**
 * A job too large to be interpreted, made small enough: the same plan (mesh, schedule, ZeRO, recompute, layer split)
 * over a narrower model, shorter sequences and a smaller batch. Of heads there are as many as tp and cp split in the same factors;
 * every width stays divisible by what splits it. dp goes down to 2, to 4 where it holds experts and copies of them. With few tokens
 * chance alone would overflow the room for rows, so there is room for all.
 *
 * Where that is still too much work, what repeats is left out, one after the other until it is little enough: layers, down to one of
 * a kind a stage; rounds of microbatches; ranks of tp and cp, down to two that split the same thing.
 */

import type { LlamaConfig, ModelConfig } from '../model/index.js'
import { type FewerHeads, fewerHeads, twoOfEach } from './fewer-heads.js'
import { fewerLayers } from './fewer-layers.js'
import { fewerMicrobatches } from './fewer-microbatches.js'
import { type Enough, fewerExperts } from './fewer-ranks.js'
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

/** What may be left out of a plan that repeats it. */
interface Fewer {
  readonly layers?: boolean
  readonly microbatches?: boolean
  readonly ranks?: boolean
}

/** Each leaves out more than the one before. */
const fewerAndFewer: readonly Fewer[] = [
  { layers: true },
  { layers: true, microbatches: true },
  { layers: true, microbatches: true, ranks: true },
]

/** Layers and ends of stages that ranks pass in a step: so many are interpreted in about ten seconds. */
const mostPasses = 16_384

const headDim = 2
/** With two heads a rank, an order of heads that is wrong is seen. */
const headsPerRank = 2
const leastEmbed = 8

export function shrink(job: Job): Shrunk {
  let small = smaller(job, {})
  for (const fewer of fewerAndFewer) if (passesOf(small) > mostPasses) small = smaller(job, fewer)
  return { job: small, changes: differences(job, small) }
}

const passesOf = ({ model, plan }: Job): number =>
  plan.dp * plan.cp * plan.tp * plan.microbatches * (layerWork(model) * model.layers + stagesOf(plan))

/** With experts to choose it takes about twice as long. */
const layerWork = (model: ModelConfig): number => ('moe' in model && model.moe ? 2 : 1)

function smaller(job: Job, fewer: Fewer): Job {
  const enough: Enough = fewer.ranks
    ? twoOfEach(job.plan, 2)
    : (factor, ranks) => (factor === 'dp' || factor === 'replicas' ? 2 : ranks)
  const few = fewerHeads(job, headsPerRank, enough)
  const { tp, cp, dp, shard, ep, etp, attention } = few
  const { shard: _, ...kept } = job.plan
  const microbatches = fewer.microbatches ? fewerMicrobatches(job.plan) : job.plan.microbatches
  const groups = shard === undefined ? {} : { shard }
  const grid: Plan = { ...kept, ...groups, tp, cp, dp, ep, etp, attention, microbatches, ...roomForAll(job.model) }
  const layered = fewer.layers ? fewLayers(job, grid) : job
  const tokens = fewTokens(job, grid)
  const training = { ...job.training, seq: tokens.seq, batchRamp: undefined, globalBatch: dp * microbatches }
  const plan = { ...grid, ...tokens.plan, layers: layered.plan.layers }
  const model = narrower(layered, few, tokens.seq)
  return { ...job, model, training, plan, ...(tokens.data && { data: tokens.data }) }
}

export const roomForAll = (model: ModelConfig): Partial<Plan> =>
  'moe' in model && model.moe ? { expertCapacity: 'worst' } : {}

/** At most one layer of a kind a stage. */
function fewLayers(job: Job, small: Plan): Job {
  const { model, split } = fewerLayers(job, small)
  return { ...job, model: { ...job.model, ...model } as ModelConfig, plan: { ...job.plan, layers: split } } // of the same family
}

function narrower({ model, training, plan }: Job, few: FewerHeads, seq: number): ModelConfig {
  const { tp, kvHeads } = few
  const ffn = Math.min(model.ffn, 2 * tp)
  if (model.family === 'mlp') return { ...model, embed: Math.min(model.embed, leastEmbed), ffn }
  const vocab = Math.min(model.vocab, tp * Math.ceil(8 / tp))
  const heads = kvHeads * few.group
  const embed = Math.min(model.embed, heads * headDim)
  if (model.family === 'gpt') return { ...model, embed, heads, kvHeads, ffn, vocab }
  const tokens = [training.seq, seq] as const
  const experts = fewerExperts(model, { from: plan, to: few, width: 2, seq: tokens })
  const narrow = { headDim: Math.min(model.headDim, headDim), ...narrowLatent(model, headDim) }
  const wide = Math.min(model.embed, Math.max(embed, leastEmbed))
  return { ...model, embed: wide, heads, kvHeads, ffn, vocab, ...narrow, ...nearer(model, tokens), ...experts }
}

/** A window that reaches as many ranks back as it did. */
export const nearer = ({ window }: LlamaConfig, [from, to]: readonly [number, number]): Partial<LlamaConfig> =>
  window === undefined ? {} : { window: Math.min(window, 1 + Math.ceil(((window - 1) * to) / from)) }

/** Latent attention with heads of so many numbers that have positions, and as many that have none. */
export function narrowLatent({ mla }: LlamaConfig, width: number): Partial<LlamaConfig> {
  if (!mla) return {}
  const [qkRopeHeadDim, qkNopeHeadDim, vHeadDim] = [mla.qkRopeHeadDim, mla.qkNopeHeadDim, mla.vHeadDim].map(size =>
    Math.min(size, width),
  )
  const kvLoraRank = Math.min(mla.kvLoraRank, 2 * width)
  const qLoraRank = mla.qLoraRank && { qLoraRank: Math.min(mla.qLoraRank, 2 * width + 1) }
  return {
    headDim: qkNopeHeadDim + qkRopeHeadDim,
    mla: { ...mla, ...qLoraRank, kvLoraRank, qkRopeHeadDim, qkNopeHeadDim, vHeadDim },
  }
}

export function differences(before: Job, after: Job): Change[] {
  const flat = (job: Job): Record<string, unknown> => ({
    ...fieldsOf('model', job.model),
    ...prefixed('training', job.training),
    ...prefixed('plan', job.plan),
    ...(job.data?.documents && { 'data.documents.pad': job.data.documents.pad }),
  })
  const [from, to] = [flat(before), flat(after)]
  const isSame = (path: string) => JSON.stringify(from[path]) === JSON.stringify(to[path])
  return Object.keys(to).flatMap(path => (isSame(path) ? [] : [{ path, from: from[path], to: to[path] }]))
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
