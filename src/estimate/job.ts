/** A job in the numbers its price depends on. */
import { batchRanks, multipliedIn, type Precision, planPrecisionFacts, sizesOf } from '../base/index.js'
import { type Adapters, type LlamaConfig, type ModelConfig, routedLayers } from '../model/index.js'
import {
  adaptersOf,
  contextOf,
  dataGroups,
  type Job,
  layersPerStage,
  optimizerFor,
  type Plan,
  type ScheduleName,
  usualFlights,
  usualRows,
  zigzagOf,
} from '../plan/index.js'
import { ownSoftwareOf } from './others/frameworks.js'
import type { Placed, Split } from './setup.js'
import type { Experts, Latent, Shape } from './shape.js'

/** The shape of a model as the cost model takes it; undefined if it is not a transformer. */
export function shapeOf(model: ModelConfig, seq: number, adapters?: Adapters): Shape | undefined {
  const shape = plainShape(model, seq)
  return shape && adapters ? { ...shape, adapters: { rank: adapters.rank, targets: adapters.targets } } : shape
}

function plainShape(model: ModelConfig, seq: number): Shape | undefined {
  if (model.family === 'mlp') return undefined
  const { layers, embed, heads, kvHeads, ffn, vocab, tied } = model
  const sizes = { layers, embed, heads, kvHeads, ffn, vocab, tied, seq }
  if (model.family === 'llama') {
    const { headDim, mla, window } = model
    const experts = expertsOf(model)
    return {
      ...{ ...sizes, headDim, gated: true, biases: false, norm: 'rms', dropout: false, positions: 'rotary' },
      ...(experts && { experts }),
      ...(mla && { latent: latentOf(mla) }),
      ...(window !== undefined && { window: { tokens: window, layers: 'all' as const } }),
    }
  }
  const headDim = embed / heads
  const dropout = model.dropout > 0
  return { ...sizes, headDim, gated: false, biases: true, norm: 'layer', dropout, positions: 'learned' }
}

function expertsOf(model: LlamaConfig): Experts | undefined {
  const { moe, layers } = model
  if (!moe) return undefined
  const { experts: count, topK: active, ffn, shared = 0, groups, topKGroups } = moe
  const dense = layers - routedLayers(model).length
  const limited = groups !== undefined && topKGroups !== undefined && { groups: { all: groups, chosen: topKGroups } }
  const spread = moe.every > 1 && { spread: true as const }
  return { count, active, ffn, shared, dense, ...spread, ...limited }
}

const latentOf = ({
  qLoraRank,
  kvLoraRank,
  qkNopeHeadDim,
  qkRopeHeadDim,
  vHeadDim,
}: NonNullable<LlamaConfig['mla']>): Latent => ({
  ...{ keyValues: kvLoraRank, plain: qkNopeHeadDim, turned: qkRopeHeadDim, values: vHeadDim },
  ...(qLoraRank !== undefined && { queries: qLoraRank }),
})

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
    recompute: typeof plan.recompute === 'string' ? plan.recompute : 'per-op',
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
