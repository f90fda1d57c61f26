/**
 * Jobs over every feature, for all that run emitted programs. JOBS=40 draws so many over experts and cut sequences, SEED=2
 * others; CASE=ring leaves those with the word in their title.
 */
import { Data, Job, type JobInput } from '../src/plan/index.js'
import { expertModels } from './expert-models.js'
import { jobOf, type ModelName, shallow, titleOf } from './jobs.js'
import { randomJob } from './random-job.js'
import { type RoutedJob, routedJobs } from './routed-jobs.js'

type PlanInput = NonNullable<JobInput['plan']>
type TrainingInput = Partial<JobInput['training']>

export const adamw = { kind: 'adamw', lr: 3e-3, eps: 1e-5, weightDecay: 0.1 } as const

const byChance = { precision: 'pure-bf16', rounding: 'stochastic' } as const

/** Gradients weigh nothing, and the decay is exact in f32: all that a step does to a parameter is to round it. */
export const decayOnly = { clip: 1e-45, optimizer: { kind: 'sgd', lr: 2 ** -6, weightDecay: 0.5 } } as const

/**
 * Every feature at least once, and what is known to be hard together. One player plays every schedule: of each kind one is here
 * (in order, in chunks, breadth first, with weights apart, in a V, from both ends).
 */
const cases: readonly (readonly [ModelName, PlanInput, TrainingInput?])[] = [
  ['mlp', { dp: 2, microbatches: 2 }, { clip: undefined }],
  // The sign of a gradient that is nothing but rounding, as that of a bias of keys, is anybody's: an mlp has none.
  ['mlp', { pp: 2, microbatches: 4 }, { optimizer: { kind: 'lion', lr: 1e-3, weightDecay: 0.1 } }],
  ['gpt', {}],
  ['gpt', { tp: 2, sequenceParallel: true }],
  ['gpt', { tp: 4, sequenceParallel: true, overlap: false }],
  [
    'gpt',
    { dp: 2, zero: 1, microbatches: 2 },
    {
      optimizer: { kind: 'muon', lr: 3e-3, weightDecay: 0.1, adamw: { lr: 1e-3 } },
      paramGroups: { norm: { weightDecay: 1 } },
    },
  ],
  // Matrices that lie side by side are made orthogonal one by one; so are those of experts.
  ['llama', {}, { optimizer: { kind: 'muon', lr: 3e-3, weightDecay: 0.1 }, ema: { decay: 0.9 } }],
  ['llama', {}, { ema: { decay: 0.9 } }],
  ['llama', { precision: 'bf16' }, { optimizer: { kind: 'muon', lr: 3e-3 } }],
  // Dealt out over copies, and over those who split them too; three matrices a kind do not go evenly over two ranks.
  ['llama', { dp: 2, tp: 2 }, { optimizer: { kind: 'muon', lr: 3e-3 } }],
  ['llama tied', { tp: 2, pp: 2, microbatches: 2 }, { optimizer: { kind: 'muon', lr: 3e-3 } }],
  [
    'gpt',
    { dp: 2, zero: 2, microbatches: 2 },
    { optimizer: { kind: 'adamw', lr: 3e-3, amsgrad: true }, ema: { decay: 0.9 } },
  ],
  ['gpt', { dp: 2, zero: 2, microbatches: 2, reduce: 'step' }],
  // Groups that are replicas: of ranks side by side, and of ranks of cp alone.
  ['llama', { dp: 4, shard: 2, zero: 3, microbatches: 2 }],
  ['gpt', { dp: 2, shard: 1, cp: 2, zero: 1, microbatches: 2 }],
  ['gpt', { dp: 2, zero: 3, microbatches: 2 }, { optimizer: { kind: 'lamb', lr: 3e-3, weightDecay: 0.1 } }],
  [
    'gpt',
    { dp: 2, zero: 3, microbatches: 2, gather: 'step' },
    { optimizer: { kind: 'adafactor', lr: 3e-3, weightDecay: 0.1 } },
  ],
  ['gpt', { recompute: ['gelu', 'layerNorm', 'contract'], tp: 2, sequenceParallel: true }],
  // Dropout masks differ by microbatch: torch.compile must not compile a function once for each.
  ['gpt tied', { dp: 2, microbatches: 10 }, { globalBatch: 20 }],
  // Adapters beside matrices that are frozen: in parts, and whole.
  ['llama', { dp: 2, zero: 3, tp: 2, microbatches: 2 }, { lora: { rank: 2, targets: 'all-linear', dropout: 0.2 } }],
  ['gpt tied', { pp: 2, dp: 2, zero: 1, microbatches: 2 }, { lora: { rank: 3, targets: ['q', 'v', 'down'] } }],
  ['llama tied', { precision: 'bf16' }, { lora: { rank: 2 } }],
  ['gpt', { dp: 2 }, { optimizer: { kind: 'sgd', lr: 0.05, momentum: 0.9, weightDecay: 0.01, nesterov: true } }],
  [
    'gpt',
    { dp: 2, tp: 2, rankOrder: 'dp-tp-pp' },
    { optimizer: { kind: 'sgd', lr: 0.05, momentum: 0.9, dampening: 0.3 } },
  ],
  [
    'gpt',
    { pp: 2, microbatches: 4, layers: [1, 3] },
    { lrSchedule: { kind: 'wsd', warmup: 2, minLr: 1e-4, cooldown: 2, cooldownShape: 'minus-sqrt' }, steps: 5 },
  ],
  ['gpt tied', { pp: 2, dp: 2, zero: 3, microbatches: 2 }, { ema: { decay: 0.5 } }],
  ['gpt tied', { tp: 2, sequenceParallel: true, recompute: 'full' }],
  ['llama', { tp: 4 }, { optimizer: { kind: 'adamw', lr: 3e-3, weightDecay: 0.1, coupled: true } }],
  ['llama', { tp: 2, sequenceParallel: true, recompute: 'cheap' }],
  ['gpt', { pp: 2, microbatches: 4, schedule: 'zb-h1', dp: 2, zero: 3, recompute: 'cheap' }],
  ['llama', { pp: 2, microbatches: 4, schedule: 'looped-bfs' }],
  ['llama', { pp: 2, microbatches: 4, schedule: 'interleaved' }],
  ['llama', { pp: 2, microbatches: 4, schedule: 'dualpipe-v' }],
  ['llama', { pp: 4, microbatches: 8, schedule: 'dualpipe', recompute: 'selective' }],
  ['llama tied', { tp: 4, rankOrder: 'pp-dp-tp' }],
  ['llama tied', { pp: 2, tp: 2, microbatches: 2, schedule: 'zb-v', zero: 0 }],
  [
    'llama',
    { dp: 2, tp: 2, pp: 2, zero: 3, sequenceParallel: true, microbatches: 2, schedule: 'zb-h1', recompute: 'full' },
  ],
  ['gpt tied', { cp: 2, tp: 2, sequenceParallel: true }],
  ['llama tied', { cp: 4, zigzag: false, recompute: 'full' }],
  ['gpt tied', { cp: 2, attention: 'ring', dp: 2, zero: 1 }],
  ['llama tied', { cp: 4, attention: 'ring', zigzag: false }],
  ['llama', { cp: 2, tp: 2, attention: 'ulysses', sequenceParallel: true }],
  ['llama', { cp: 4, attention: { ulysses: 2, ring: 2 }, precision: 'bf16' }],
  ['latent', { tp: 2, sequenceParallel: true, recompute: 'full' }],
  ['latent', { cp: 2, dp: 2, zero: 3, microbatches: 2 }],
  ['latent', { pp: 2, tp: 2, microbatches: 2, schedule: 'zb-v' }],
  // One sequence a rank and microbatch.
  ['latent', { dp: 2, tp: 2, sequenceParallel: true, microbatches: 8 }],
  ['latent', { tp: 2, precision: 'bf16' }],
  ['gpt tied', { tp: 2, sequenceParallel: true, microbatches: 2, precision: 'bf16' }],
  ['llama', { pp: 2, dp: 2, zero: 3, microbatches: 2, schedule: 'zb-h1', precision: 'bf16' }],
  ['gpt tied', { offload: { optimizer: 'host' } }],
  ['llama', { dp: 3, zero: 1, offload: { optimizer: 'host' } }, { globalBatch: 12 }],
  ['llama', { pp: 2, dp: 2, zero: 3, microbatches: 2, precision: 'bf16', offload: { optimizer: 'host' } }],
  ['gpt', { tp: 2, zero: 0, precision: 'pure-bf16', offload: { optimizer: 'host' } }],
  ['llama', { dp: 2, zero: 1, precision: 'bf16', offload: { optimizer: 'disk' } }],
  [
    'gpt tied',
    { dp: 3, zero: 1, offload: { optimizer: 'disk' } },
    { globalBatch: 12, optimizer: { kind: 'lamb', lr: 1e-3 } },
  ],
  ['llama', { tp: 2, offload: { optimizer: 'disk' } }, { optimizer: { kind: 'muon', lr: 1e-3 } }],
  ['llama', { dp: 2, zero: 3, precision: 'bf16', offload: { optimizer: 'disk', parameters: 'disk' } }],
  ['gpt tied', { zero: 3, microbatches: 2, offload: { parameters: 'disk' } }, { ema: { decay: 0.9 } }],
  [
    'llama',
    { pp: 2, microbatches: 4, recompute: 'full', offload: { activations: 'layer-inputs', layerInputs: 'disk' } },
  ],
  ['gpt', { offload: { optimizer: 'disk' } }, { optimizer: { kind: 'adafactor', lr: 1e-3 }, ema: { decay: 0.9 } }],
  ['llama', { pp: 2, microbatches: 4, recompute: 'full', offload: { activations: 'layer-inputs' } }],
  ['llama', { dp: 2, zero: 3, precision: 'bf16', offload: { optimizer: 'host', parameters: 'host' } }],
  ['gpt tied', { zero: 3, microbatches: 2, offload: { parameters: 'host' } }],
  ['llama', { dp: 2, zero: 1, offload: { optimizer: 'host' } }, { optimizer: { kind: 'muon', lr: 1e-3 } }],
  ['gpt', { dp: 2, zero: 1, precision: 'pure-bf16', gradients: 'f32' }],
  ['gpt', { dp: 2, zero: 1, precision: 'bf16-no-masters', gradients: 'bf16' }],
  ['llama', { dp: 2, zero: 1, microbatches: 2, precision: 'bf16', gradients: 'bf16' }],
  ['llama', { dp: 2, tp: 2, zero: 1, ...byChance }, decayOnly],
  ['gpt tied', { ...byChance }, decayOnly],
  ['gpt', { dp: 2, zero: 3, ...byChance }],
  ['gpt', { dp: 2, tp: 2, microbatches: 2, compress: { reduce: 'bf16' } }],
  ['llama', { dp: 2, tp: 2, zero: 1, microbatches: 2, compress: { reduce: 'powersgd', rank: 2, rate: 1 } }],
  ['gpt tied', { dp: 2, pp: 2, microbatches: 2, compress: { reduce: 'powersgd', rank: 2, rate: 1 } }],
  ['llama', { dp: 2, tp: 2, zero: 1, microbatches: 2, compress: { reduce: 'topk', ratio: 0.2 } }],
  [
    'gpt tied',
    { dp: 2, tp: 2, microbatches: 2, compress: { reduce: 'onebit', from: 1 } },
    { optimizer: { kind: 'adamw', lr: 3e-3, eps: 1e-5, uncorrected: true } },
  ],
  ['llama', { dp: 2, zero: 3, microbatches: 2, compress: { reduce: 'f16', gather: 'bf16' } }],
  ['gpt tied', { dp: 2, zero: 1, microbatches: 2, compress: { reduce: 'bf16' } }],
  // Three ranks share tensors that three does not divide: shards are padded, also in the buffers that are sent.
  ['llama', { dp: 3, zero: 2, microbatches: 2, compress: { reduce: 'bf16' } }, { globalBatch: 12 }],
  ['llama', { dp: 2, tp: 2, zero: 3, microbatches: 2, compress: { gather: 'int8', run: 8 } }],
  ['gpt', { dp: 2, microbatches: 2, compress: { reduce: 'int8', run: 8 } }],
  ['llama', { dp: 2, tp: 2, zero: 3, microbatches: 2, compress: { reduce: 'int8', run: 5 } }],
  ['llama', { tp: 2, sequenceParallel: true, precision: 'bf16', fp8: {} }],
  ['gpt tied', { dp: 2, zero: 3, microbatches: 2, precision: 'pure-bf16', fp8: {}, recompute: 'full' }],
  ['llama', { tp: 2, sequenceParallel: true, precision: 'bf16', fp8: { recipe: 'blocks', block: 2 } }],
  [
    'gpt',
    { dp: 2, zero: 3, microbatches: 2, precision: 'bf16', fp8: { recipe: 'blocks', block: 3 }, recompute: 'full' },
  ],
  ['llama', { tp: 2, dp: 2, microbatches: 2, precision: 'bf16', fp8: { recipe: 'delayed', history: 2 } }],
  ['llama', { dp: 2, precision: 'bf16', fp8: { recipe: 'blocks', block: 2, scales: 'exact' } }],
  ['gpt', { tp: 2, precision: 'bf16', fp8: { recipe: 'mx', block: 2, scales: 'even' } }],
  [
    'gpt',
    {
      pp: 2,
      zero: 1,
      microbatches: 2,
      precision: 'pure-bf16',
      fp8: { recipe: 'delayed', algo: 'most_recent', margin: 1 },
    },
  ],
]

/** Random jobs of as many ranks as are there anyway; so many of any model, and so many over experts and cut sequences. */
const drawn = { plain: 2, routed: Number(process.env.JOBS ?? 2), seed: Number(process.env.SEED ?? 1) }
const seeds = Array.from({ length: 200 }, (_, i) => i + 1)
  .filter(seed => [2, 4, 8].includes(ranksOf(randomJob(seed))))
  .slice(0, drawn.plain)

export const steps = 2
export function ranksOf({ plan: { dp, cp, tp, pp } }: Job): number {
  return dp * cp * tp * pp
}

export const isHalf = ({ plan }: Job): boolean => plan.precision !== 'f32'

/** What a job is run in: with all digits, and as the plan says. */
export const precisionsOf = (job: Job) =>
  isHalf(job) || ranksOf(job) === 1 ? (['f64', 'plan'] as const) : (['f64'] as const)

const withEps = ({ training, ...job }: Job): Job => ({
  ...job,
  training: {
    ...training,
    optimizer: training.optimizer.kind === 'adamw' ? { ...training.optimizer, eps: adamw.eps } : training.optimizer,
  },
})

const chosen = cases.map(([model, plan, training]) => ({
  job: shallow(jobOf(model, plan, { steps, evalBatches: 1, optimizer: adamw, ...training })),
  title: `${model}: ${titleOf(plan)}${training ? ` ${JSON.stringify(training)}` : ''}`,
}))
const routedModels = {
  ...expertModels,
  /** Of three layers the second alone has experts. */
  second: { ...expertModels.qwen, layers: 3 },
}
/** Routed models: every kind of router, experts on one rank, shared by ranks of every axis, and split. */
const routed: readonly (readonly [keyof typeof routedModels, PlanInput, TrainingInput?])[] = [
  ['mixtral', {}],
  ['deepseek', { microbatches: 2, recompute: 'full' }],
  ['qwen', { dp: 2, zero: 1 }],
  ['gshard', { tp: 2, sequenceParallel: true }],
  // Balance losses of the first stage alone: the last reports the loss.
  ['second', { pp: 2, microbatches: 2 }],
  ['mixtral', { dp: 2, ep: 2 }],
  ['mixtral', { dp: 4, ep: 2, zero: 1 }, { optimizer: { kind: 'muon', lr: 3e-3 } }],
  ['deepseek', { dp: 2, cp: 2, ep: 4, zero: 3, microbatches: 2 }],
  ['mixtral', { cp: 2, tp: 2, ep: 4, sequenceParallel: true }],
  ['gshard', { dp: 2, tp: 2, ep: 2, etp: 2 }],
  ['mixtral', { pp: 2, dp: 2, ep: 2, microbatches: 2, schedule: 'zb-h1' }],
  ['mixtral', { dp: 2, ep: 2, precision: 'bf16' }],
  ['mixtral', { dp: 2, ep: 2, precision: 'bf16', fp8: { experts: true } }],
  ['mixtral', { tp: 2, etp: 2, dp: 2, precision: 'bf16', fp8: { recipe: 'blocks', block: 2, experts: true } }],
  ['deepseek', { dp: 2, ep: 2, precision: 'bf16', fp8: { recipe: 'delayed', history: 2, experts: true } }],
  // Rows that need not fit, and a zigzag over factors that experts cut.
  ['mixtral', { dp: 4, ep: 4, expertCapacity: 3 }],
  ['mixtral', { cp: 4, ep: 2, tp: 2, sequenceParallel: true }],
  ['mixtral', { cp: 4, ep: 2, attention: 'ring' }],
  ['gshard', { cp: 2, ep: 2, zigzag: 'documents' }],
]
const withExperts = routed.map(([model, plan, training]) => ({
  job: Job.parse({
    model: routedModels[model],
    training: { seq: 8, globalBatch: 8, clip: 0.5, steps, evalBatches: 1, optimizer: adamw, ...training },
    plan: { expertCapacity: 'worst', ...plan },
    ...(plan.zigzag === 'documents' && { data: { documents: { eod: 0, pad: 4 } } }),
  }),
  title: `experts, ${model}: ${titleOf(plan)}${training ? ` ${JSON.stringify(training)}` : ''}`,
}))
/** Sequences of several documents, under every kind of attention, and each cut in zigzag by itself. */
const ofDocuments: readonly (readonly [ModelName, PlanInput, pad?: number])[] = [
  ['gpt tied', { cp: 2, tp: 2, sequenceParallel: true }],
  ['llama tied', { cp: 4, attention: 'ring', zigzag: false, recompute: 'full' }],
  ['latent', { cp: 2, attention: 'ring', dp: 2, zero: 1 }],
  ['llama', { cp: 4, attention: { ulysses: 2, ring: 2 } }],
  ['gpt', { pp: 2, microbatches: 2, schedule: 'zb-h1', precision: 'bf16' }],
  ['llama tied', { cp: 2, zigzag: 'documents', attention: 'ring', tp: 2, sequenceParallel: true }, 4],
  ['gpt tied', { cp: 2, zigzag: 'documents', dp: 2, zero: 3 }, 4],
]
const withDocuments = ofDocuments.map(([model, plan, pad = 1], i) => ({
  job: {
    ...shallow(jobOf(model, plan, { seq: 8 * Math.min(pad, 2), steps, evalBatches: 2, optimizer: adamw })),
    data: Data.parse({ documents: { eod: i % 3, eodMaskLoss: i % 2 === 0, pad } }),
  },
  title: `documents, ${model}: ${titleOf(plan)}`,
}))
/** Every optimizer with every ZeRO stage; and ZeRO's collectives at each use, or once per step. */
const optimizers: readonly TrainingInput['optimizer'][] = [
  adamw,
  { kind: 'sgd', lr: 0.05, momentum: 0.9, weightDecay: 0.01 },
  { kind: 'lion', lr: 1e-3, weightDecay: 0.1 },
  { kind: 'lamb', lr: 3e-3, weightDecay: 0.1 },
  { kind: 'adafactor', lr: 3e-3, weightDecay: 0.1 },
  { kind: 'muon', lr: 3e-3, weightDecay: 0.1 },
]
const sharded: readonly (readonly [ModelName, PlanInput, TrainingInput['optimizer']])[] = [
  ...([0, 1, 2, 3] as const).flatMap(zero =>
    optimizers.map(optimizer => ['llama', { dp: 2, zero, microbatches: 2 }, optimizer] as const),
  ),
  ...(['gpt', 'llama'] as const).flatMap(model =>
    (
      [
        { zero: 2, reduce: 'step' },
        { zero: 3, reduce: 'step' },
        { zero: 3, gather: 'step' },
        { zero: 3, reduce: 'step', gather: 'step' },
        { zero: 3, reduce: 'step', tp: 2, sequenceParallel: true },
        { zero: 3, reduce: 'step', pp: 2, overlap: false },
      ] as const
    ).map(plan => [model, { dp: 2, microbatches: 2, ...plan }, adamw] as const),
  ),
]
const withShards = sharded.map(([model, plan, optimizer]) => ({
  job: shallow(jobOf(model, plan, { steps, evalBatches: 1, optimizer })),
  title: `ZeRO, ${model}: ${titleOf(plan)} ${optimizer!.kind}`,
}))

const random = seeds.map(seed => ({ job: withEps(randomJob(seed)), title: `a random job (SEED=${seed})` }))
const routedJob = routedJobs(drawn.seed, { steps, evalBatches: 2, optimizer: adamw })
const randomRouted = Array.from({ length: drawn.routed }, () => routedJob.next().value as RoutedJob) // it never ends
export interface EmitCase {
  readonly title: string
  readonly job: Job
}

export const emitCases: readonly EmitCase[] = [
  ...[...chosen, ...withExperts, ...withDocuments, ...withShards, ...random, ...randomRouted],
].filter(({ title }) => title.includes(process.env.CASE ?? ''))
