/** A job in the numbers its price depends on. */
import { batchRanks, multipliedIn, type Precision, planPrecisionFacts, precisionFacts, sizesOf } from '../base/index.js'
import type { Adapters, LlamaConfig, ModelConfig } from '../model/index.js'
import {
  adaptersOf,
  contextOf,
  dataGroups,
  type Job,
  layersPerStage,
  optimizerFor,
  type Plan,
  type PlanInput,
  type ScheduleName,
  usualFlights,
  usualRows,
  zigzagOf,
} from '../plan/index.js'
import { ownSoftwareOf } from './others/frameworks.js'
import type { Placed, Split } from './setup.js'
import { type Experts, plainShape, type Shape } from './shape.js'

/** The shape of a model as the cost model takes it; undefined if it is not a transformer. */
export function shapeOf(model: ModelConfig, seq: number, adapters?: Adapters): Shape | undefined {
  const shape = plainShape(model, seq)
  return shape && { ...shape, config: model, ...(adapters && { adapters }) }
}

/** What of a plan concerns experts. */
function expertSplit({ moe }: Pick<LlamaConfig, 'moe'>, plan: Plan): Pick<Split, 'etp' | 'imbalance' | 'rows'> {
  if (!moe) return {}
  const { ep, etp, expertCapacity: rows } = plan
  return { ...(etp > 1 && { etp }), ...roomForRows({ count: moe.experts, active: moe.topK }, { ep, etp, rows }) }
}

/** As many rows as a plan has room for are worked on; there are never more than if all tokens chose experts of one rank. */
export function roomForRows(
  { count, active }: Pick<Experts, 'count' | 'active'>,
  { ep, etp = 1, rows }: Pick<Split, 'ep' | 'etp'> & { readonly rows: Plan['expertCapacity'] },
): Pick<Split, 'imbalance' | 'rows'> {
  const imbalance = Math.max(1, Math.min(ep * etp, count / active, rows === 'worst' ? Infinity : rows))
  return { ...(imbalance > 1 && { imbalance }), ...(rows !== usualRows && { rows }) }
}

/** How attention sees a sequence that is split. */
function contextSplit(plan: Plan, seq: number): Pick<Split, 'inOrder' | 'ulysses' | 'ring'> {
  const { outer, ulysses, ring } = contextOf(plan)
  return {
    ...(outer > 1 && zigzagOf(plan, seq) === undefined && { inOrder: true }),
    ...(ulysses > 1 && { ulysses }),
    ...(ring && { ring }),
  }
}

/** What ZeRO does once a step, where it splits anything. */
const onceAStep = ({ zero, reduce, gather }: Plan): Pick<Split, 'reduce' | 'gather'> => ({
  ...(zero >= 2 && reduce === 'step' && { reduce }),
  ...(zero === 3 && gather === 'step' && { gather }),
})

/** How it travels, where that is not the usual. */
const unusualFlights = ({ bucket, prefetch }: Plan): Pick<Split, 'bucket' | 'prefetch'> => ({
  ...(bucket !== usualFlights.bucket && { bucket }),
  ...(prefetch !== usualFlights.prefetch && { prefetch }),
})

/** HSDP: ZeRO shards over the data ranks of a group. */
const groupedSplit = (plan: Plan): Pick<Split, 'sharded'> => {
  const { shard, groups } = dataGroups(plan)
  return groups > 1 ? { sharded: shard * plan.cp } : {}
}

/** What lives elsewhere than on the device. */
const offloadSplit = ({ offload }: Plan): Pick<Split, 'offload' | 'lifted' | 'waiting'> => ({
  ...(offload && offload.optimizer !== 'device' && { offload: offload.optimizer }),
  ...(offload && offload.parameters !== 'device' && { lifted: offload.parameters }),
  ...(offload?.activations === 'layer-inputs' && { waiting: offload.layerInputs }),
})

/**
 * The plan of a job as numbers for the cost model. A schedule from a file can only be estimated as a named one: pass `fileAs`.
 */
export function splitOf(job: Job, fileAs: ScheduleName): Split
export function splitOf(job: Job, fileAs?: ScheduleName): Split | undefined
export function splitOf({ model, training, plan }: Job, fileAs?: ScheduleName): Split | undefined {
  const { sequenceParallel, chunks, microbatches } = plan
  const schedule = typeof plan.schedule === 'string' ? plan.schedule : fileAs
  if (schedule === undefined) return undefined
  return {
    ...{ ...sizesOf(plan), sequenceParallel, schedule, chunks, microbatches },
    zero: plan.zero as Split['zero'], // the schema holds it between 0 and 3
    microbatch: training.globalBatch / (batchRanks(plan) * microbatches),
    ...(typeof plan.recompute === 'string'
      ? { recompute: plan.recompute }
      : { recompute: 'per-op' as const, ops: plan.recompute }),
    ...(!plan.overlap && { overlap: false as const }),
    ...groupedSplit(plan),
    ...contextSplit(plan, training.seq),
    ...(plan.layers === 'even' ? {} : { layers: layersPerStage(plan, model.layers) }),
    ...(model.family === 'llama' ? expertSplit(model, plan) : {}),
    ...onceAStep(plan),
    ...unusualFlights(plan),
    ...(plan.compress && { wire: plan.compress }),
    ...(plan.fp8 && { fp8: plan.fp8.recipe }),
    ...offloadSplit(plan),
  }
}

/** What most products of a plan are in. */
export const precisionOf = ({ precision, fp8 }: Pick<Plan, 'precision' | 'fp8'>): Precision =>
  fp8 ? 'fp8' : multipliedIn[planPrecisionFacts[precision].token]

/** What `estimate` needs of a job, beside cluster and software; undefined if the schedule is a file. */
export function placedOf(job: Job): Placed | undefined {
  const [shape, split] = [shapeOf(job.model, job.training.seq, adaptersOf(job)), splitOf(job)]
  if (!shape || !split) return undefined
  return {
    shape,
    split,
    precision: precisionOf(job.plan),
    software: ownSoftwareOf(job.plan),
    optimizer: optimizerFor(job.training.optimizer, job.training.lora ? 'adapter' : 'matrix'),
    ...(job.training.ema && { averages: true }),
    ...(job.training.lossScale && { scaled: true }),
  }
}

/** The plan as it would be written in a job file: defaults are left out. */
export function planInput(split: Split, precision: Precision = 'f32'): PlanInput {
  const stored = precisionFacts[precision].plan
  const { tp, cp, pp, dp, zero, sequenceParallel, microbatches, recompute, layers, schedule } = split
  const { reduce, gather, bucket, prefetch, sharded } = split
  return {
    ...(dp > 1 && { dp }),
    ...(tp > 1 && { tp }),
    ...(cp > 1 && { cp }),
    ...(cp > 1 && split.inOrder && { zigzag: false }),
    ...(cp > 1 && attentionOf(split)),
    ...(split.ep > 1 && { ep: split.ep }),
    ...((split.etp ?? 1) > 1 && { etp: split.etp! }),
    ...(split.rows !== undefined && { expertCapacity: split.rows }),
    ...(pp > 1 && { pp }),
    ...(zero > 0 && { zero }),
    ...(zero > 0 && sharded !== undefined && { shard: sharded / cp }),
    ...(zero >= 2 && reduce && { reduce }),
    ...(zero === 3 && gather && { gather }),
    ...(bucket !== undefined && { bucket }),
    ...(prefetch !== undefined && { prefetch }),
    ...(sequenceParallel && { sequenceParallel }),
    ...(microbatches > 1 && { microbatches }),
    ...(pp > 1 && { schedule }),
    ...(split.chunks > 1 && { chunks: split.chunks }),
    ...(recompute !== 'none' && { recompute: recompute === 'per-op' ? [...(split.ops ?? [])] : recompute }),
    ...(split.overlap === false && { overlap: false }),
    ...(layers && { layers: { first: layers[0], last: layers[layers.length - 1] } }),
    ...(stored !== 'f32' && { precision: stored }),
    ...((split.fp8 || precisionFacts[precision].coded) && {
      fp8: split.fp8 && split.fp8 !== 'current' ? { recipe: split.fp8 } : {},
    }),
    ...((split.offload || split.lifted || split.waiting) && { offload: offloadOf(split) }),
    ...(split.wire && { compress: split.wire as PlanInput['compress'] }), // as a plan had it
  }
}

const offloadOf = ({ offload, lifted, waiting }: Split): PlanInput['offload'] => ({
  ...(offload && { optimizer: offload }),
  ...(lifted && { parameters: lifted }),
  ...(waiting && { activations: 'layer-inputs', layerInputs: waiting }),
})

/** How queries meet keys, where these are not gathered. */
export function attentionOf({ cp, ulysses = 1, ring }: Split): Pick<PlanInput, 'attention'> {
  if (ulysses === 1) return ring ? { attention: 'ring' } : {}
  return { attention: ulysses === cp ? 'ulysses' : { ulysses, ring: cp / ulysses } }
}
