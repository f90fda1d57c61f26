/**
 * The dress rehearsal of a plan: as many ranks as this machine bears, and of everything that only changes numbers as
 * little as leaves the program what it is. An axis that splits something keeps splitting it, at least in two; tp keeps
 * its factors where key-value heads are fewer, and cp its kind of attention; the schedule, ZeRO, sequence parallelism, recomputation, the kind of
 * layer split and the relation of microbatches to the pipeline's depth stay.
 */
import type { ModelConfig } from '../model/index.js'
import { type FewerHeads, fewerHeads, twoOfEach } from './fewer-heads.js'
import { fewerLayers } from './fewer-layers.js'
import { fewerMicrobatches } from './fewer-microbatches.js'
import { fewerExperts } from './fewer-ranks.js'
import { fewTokens } from './rule.js'
import { Data, type Job, type Plan } from './schema.js'
import { differences, narrowLatent, nearer, roomForAll, type Shrunk } from './shrink.js'

/** How small to go. Where the smallest is another program, a little larger may be the same. */
export interface RehearsalSizes {
  readonly dp: number
  readonly headDim: number
  readonly headsPerRank: number
  /** The maximum number of ranks, and of tasks per rank. */
  readonly ranks: number
  readonly tasks: number
}

/** The sizes that a dry run tries, smallest first. */
export const rehearsalSizes: readonly RehearsalSizes[] = [
  { dp: 2, headDim: 2, headsPerRank: 1 },
  { dp: 2, headDim: 4, headsPerRank: 2 },
  // Three divides none of these widths, as a dp of 7 divides none of the usual ones.
  { dp: 3, headDim: 4, headsPerRank: 1 },
  { dp: 3, headDim: 6, headsPerRank: 1 },
  { dp: 4, headDim: 4, headsPerRank: 2 },
  { dp: 4, headDim: 8, headsPerRank: 1 },
].map(sizes => ({ ...sizes, ranks: 64, tasks: 256 }))

/** A job reduced to sizes that run on this machine, with the same program structure. */
export function rehearsalOf(job: Job, sizes: RehearsalSizes): Shrunk {
  const tensor = fewerHeads(job, sizes.headsPerRank, twoOfEach(job.plan, sizes.dp))
  const { dp, cp, ep, etp, shard } = tensor
  const pp = pipelineOf(job.plan, Math.max(1, Math.floor(sizes.ranks / (dp * cp * tensor.tp))))
  const microbatches = microbatchesOf(job.plan, pp, sizes.tasks)
  const { deviceMemory: _, shard: _shard, ...kept } = job.plan
  const few = fewTokens(job, tensor)
  const grid = {
    dp,
    cp,
    attention: tensor.attention,
    tp: tensor.tp,
    ep,
    etp,
    pp,
    ...roomForAll(job.model),
    ...(shard && { shard }),
  }
  const plan: Plan = { ...kept, ...few.plan, ...grid, microbatches }
  const fewer = fewerLayers(job, plan)
  const training = { ...job.training, seq: few.seq, batchRamp: undefined, globalBatch: dp * microbatches }
  const { data: _data, ...rest } = job
  const small: Job = {
    ...rest,
    ...(few.data?.documents && { data: Data.parse({ documents: { ...few.data.documents, eod: 0 } }) }),
    model: narrowed({ ...job, model: { ...job.model, ...fewer.model } as ModelConfig }, tensor, {
      ...sizes,
      seq: few.seq,
    }),
    training,
    plan: { ...plan, layers: fewer.split },
  }
  return { job: small, changes: differences(job, small) }
}

function narrowed(
  job: Job,
  tensor: FewerHeads,
  { headDim, seq }: RehearsalSizes & { readonly seq: number },
): ModelConfig {
  const { model } = job
  const { tp, kvHeads, group } = tensor
  const width = 2 * headDim
  const ffn = Math.min(model.ffn, width * tp)
  if (model.family === 'mlp') return { ...model, ffn, embed: Math.min(model.embed, 4 * headDim) }
  const vocab = Math.min(model.vocab, tp * Math.ceil(8 / tp) * headDim)
  const heads = kvHeads * group
  const embed = heads * headDim
  if (model.family === 'gpt') return { ...model, ffn, vocab, heads, kvHeads, embed }
  const tokens = [job.training.seq, seq] as const
  const few = { ...nearer(model, tokens), ...fewerExperts(model, { from: job.plan, to: tensor, width, seq: tokens }) }
  return { ...model, ffn, vocab, heads, kvHeads, embed, headDim, ...narrowLatent(model, headDim), ...few }
}

/** A pipeline as deep as it was, or as deep as there is room for, even if it was even. A schedule from a file keeps its depth. */
function pipelineOf({ pp, schedule }: Plan, most: number): number {
  if (pp <= most || typeof schedule !== 'string') return pp
  return Math.max(1, most - (most % 2 === pp % 2 ? 0 : 1))
}

/** All of them where the pipeline is as deep as it was and they are few. */
function microbatchesOf(plan: Plan, now: number, tasks: number): number {
  const { microbatches, pp, chunks } = plan
  return now === pp && microbatches * chunks <= tasks / 8 ? microbatches : fewerMicrobatches(plan, now)
}
