/**
 * The dress rehearsal of a plan: as many ranks as this machine bears, and of everything that only changes numbers as
 * little as leaves the program what it is. An axis that splits something keeps splitting it, at least in two; tp keeps
 * its factors where key-value heads are fewer, and cp its kind of attention; the schedule, ZeRO, sequence parallelism, recomputation, the kind of
 * layer split and the relation of microbatches to the pipeline's depth stay.
 */
import type { ModelConfig } from '../model/index.js'
import { stagesOf } from './layers.js'
import { contextOf, fewTokens, headSplit } from './rule.js'
import { Data, type Job, type Plan } from './schema.js'
import { differences, narrowLatent, type Shrunk } from './shrink.js'

/** How small to go. Where the smallest is another program, a little larger may be the same. */
export interface RehearsalSizes {
  readonly dp: number
  readonly headDim: number
  readonly headsPerRank: number
  /** At most so many ranks, and tasks of one rank. */
  readonly ranks: number
  readonly tasks: number
}

export const rehearsalSizes: readonly RehearsalSizes[] = [
  { dp: 2, headDim: 2, headsPerRank: 1 },
  { dp: 2, headDim: 4, headsPerRank: 2 },
  // Three divides none of these widths, as a dp of 7 divides none of the usual ones.
  { dp: 3, headDim: 4, headsPerRank: 1 },
  { dp: 3, headDim: 6, headsPerRank: 1 },
  { dp: 4, headDim: 4, headsPerRank: 2 },
  { dp: 4, headDim: 8, headsPerRank: 1 },
].map(sizes => ({ ...sizes, ranks: 64, tasks: 256 }))

export function rehearsalOf(job: Job, sizes: RehearsalSizes): Shrunk {
  const tensor = tensorOf(job, sizes)
  const dp = Math.min(job.plan.dp, sizes.dp)
  const { cp } = tensor
  const pp = pipelineOf(job.plan, Math.max(1, Math.floor(sizes.ranks / (dp * cp * tensor.tp))))
  const microbatches = microbatchesOf(job.plan, pp, sizes.tasks)
  const { deviceMemory: _, ...kept } = job.plan
  const few = fewTokens(job, tensor)
  const plan: Plan = { ...kept, ...few.plan, dp, cp, attention: tensor.attention, tp: tensor.tp, pp, microbatches }
  const { layers, split } = layersOf(job, plan)
  const training = { ...job.training, seq: few.seq, batchRamp: undefined, globalBatch: dp * microbatches }
  const { data: _data, ...rest } = job
  const small: Job = {
    ...rest,
    ...(few.data?.documents && { data: Data.parse({ documents: { ...few.data.documents, separator: 0 } }) }),
    model: { ...narrowed(job.model, tensor, sizes), layers },
    training,
    plan: { ...plan, layers: split },
  }
  return { job: small, changes: differences(job, small) }
}

interface Tensor {
  readonly tp: number
  readonly cp: number
  readonly attention: Plan['attention']
  readonly kvHeads: number
  readonly group: number
}

/**
 * tp and the ranks of cp that exchange heads, as the heads have them: each factor in two if it was there at all. A ring keeps
 * its ranks, since it takes as many steps.
 */
function tensorOf({ model, plan }: Job, { headsPerRank }: RehearsalSizes): Tensor {
  const { outer, ulysses: exchanging, ring } = contextOf(plan)
  const { attention } = plan
  const around = ring ? outer : Math.min(outer, 2)
  if (model.family === 'mlp') return { tp: Math.min(plan.tp, 2), cp: around, attention, kvHeads: 1, group: 1 }
  const { kvHeads } = model
  const { tp, ulysses } = headSplit(plan.tp, exchanging, kvHeads)
  const least = (ranks: { kvHeads: number; group: number }) => [Math.min(ranks.kvHeads, 2), Math.min(ranks.group, 2)]
  const [[few, many], [fewer, more]] = [least(tp), least(ulysses)]
  // More key-value heads than these would change how the axes are factored, where one has a second factor.
  const own = many * more > 1 ? 1 : Math.min(kvHeads / tp.kvHeads / ulysses.kvHeads, headsPerRank)
  const group = model.heads / kvHeads / tp.group / ulysses.group
  const cp = around * fewer * more
  return {
    ...{ tp: few * many, cp, kvHeads: few * fewer * own, group: many * more * Math.min(group, 2) },
    attention: typeof attention === 'object' ? { ulysses: fewer * more, ring: around } : attention,
  }
}

function narrowed(model: ModelConfig, { tp, kvHeads, group }: Tensor, { headDim }: RehearsalSizes): ModelConfig {
  const ffn = Math.min(model.ffn, 2 * headDim * tp)
  if (model.family === 'mlp') return { ...model, ffn, embed: Math.min(model.embed, 4 * headDim) }
  const vocab = Math.min(model.vocab, tp * Math.ceil(8 / tp) * headDim)
  const heads = kvHeads * group
  const embed = heads * headDim
  if (model.family === 'gpt') return { ...model, ffn, vocab, heads, kvHeads, embed }
  return { ...model, ffn, vocab, heads, kvHeads, embed, headDim, ...narrowLatent(model, headDim) }
}

/** A pipeline as deep as it was, or as deep as there is room for, even if it was even. A schedule from a file keeps its depth. */
function pipelineOf({ pp, schedule }: Plan, most: number): number {
  if (pp <= most || typeof schedule !== 'string') return pp
  return Math.max(1, most - (most % 2 === pp % 2 ? 0 : 1))
}

/** m = k x pp + r: a few whole rounds, at least of 8 microbatches where there were as many, and a rest where there was one. */
function microbatchesOf({ microbatches, pp, chunks, schedule }: Plan, now: number, tasks: number): number {
  if (typeof schedule !== 'string' || (now === pp && microbatches * chunks <= tasks / 8)) return microbatches
  if (microbatches < pp) return Math.max(1, Math.ceil((microbatches * now) / pp))
  const rounds = Math.min(Math.floor(microbatches / pp), Math.max(2, Math.ceil(8 / now)))
  return rounds * now + Math.min(microbatches % pp, now - 1)
}

/** One layer in every stage that has any; two where there is but one stage, so that layers still repeat. */
function layersOf({ model, plan }: Job, small: Plan): { layers: number; split: Plan['layers'] } {
  const stages = stagesOf(small)
  if (plan.layers === 'even') return { layers: Math.min(model.layers, Math.max(2, stages)), split: 'even' }
  if (Array.isArray(plan.layers)) {
    const { layers: asked } = plan
    const split = Array.from({ length: stages }, (_, i) => Math.min(1, asked[from(i, stages, asked.length)]))
    return { layers: split.reduce((a, b) => a + b, 0), split }
  }
  if (stages === 1) return { layers: Math.min(model.layers, 2), split: 'even' }
  const { first, last } = plan.layers
  const split = {
    ...(first === undefined ? {} : { first: Math.min(first, 1) }),
    ...(last === undefined ? {} : { last: Math.min(last, 1) }),
  }
  return { layers: stages - (split.first === 0 ? 1 : 0) - (split.last === 0 ? 1 : 0), split }
}

/** The first and the last stay first and last. */
const from = (i: number, stages: number, before: number): number =>
  stages === 1 ? 0 : Math.round((i * (before - 1)) / (stages - 1))
