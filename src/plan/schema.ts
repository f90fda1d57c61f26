/**
 * A job: what to train, how long a step is, and how it is laid on the mesh. One strict schema gives the types, the
 * defaults and the help; what one field alone can say is checked here, what several say together in `check`.
 */
import { z } from 'zod'
import {
  axisFacts,
  defaultOrder,
  either,
  gradientTypes,
  type MeshAxis,
  meshAxes,
  type OpKind,
  opFacts,
  opKinds,
  optimizerKinds,
  type ParamRole,
  paramRoles,
  parseBytes,
  parseCount,
  planPrecisionFacts,
  planPrecisions,
  refusal,
  shorten,
  throwing,
} from '../base/index.js'
import { ModelConfig } from '../model/index.js'
import { Compression } from './compress-schema.js'
import { usualRows } from './folding.js'
import { Fp8 } from './fp8-schema.js'
import { Lora } from './lora-schema.js'
import { Offload } from './offload-schema.js'
import { LrSchedule, Multipliers, Optimizer } from './optimizer-schema.js'
import { LossScale } from './scaler-schema.js'
import { scheduleFacts, scheduleNames } from './schedule.js'

/** Forward ops whose results a plan may choose to compute again. */
export const recomputable: readonly OpKind[] = opKinds.filter(kind => opFacts[kind].recomputed !== undefined)

const axis = z
  .int()
  .min(1)
  .max(2 ** 16)
  .default(1)
const describedAxis = (name: MeshAxis) =>
  axis.describe(`${axisFacts[name].counts}${axisFacts[name].supported ? '' : ' (not supported yet)'}`)
const axes = Object.fromEntries(meshAxes.map(name => [name, describedAxis(name)])) as Record<MeshAxis, typeof axis> // all of them
const count = z.int().min(1)

/** Written as a number, or as 8k or 1M with so much to the k. */
const amount = (k: 1000 | 1024, most = 2 ** 30) =>
  z
    .union(
      [
        z.number(),
        z.string().transform((text, ctx) => {
          const value = parseCount(text, k)
          if (value !== undefined) return value
          ctx.issues.push(refusal(text, [], 'schema/value/count', { got: shorten(text, 40) }))
          return z.NEVER
        }),
      ],
      { error: 'expected an integer, such as 8192 or 8k' },
    )
    .pipe(count.max(most))

/** Of a whole run. */
const tokens = amount(1000, 2 ** 50)

const schedule = z
  .union(
    [
      z.enum(scheduleNames),
      z
        .string()
        .regex(/\.csv$/)
        .transform(file => ({ file })),
      z.strictObject({ file: z.string().min(1).describe('a CSV file in PyTorch notation') }),
    ],
    { error: `expected a schedule (${scheduleNames.join(', ')}) or a .csv file` },
  )
  .default('1f1b')
  .describe('pipeline schedule: a name, or a CSV file in PyTorch notation')

/** The named recomputation policies (activation checkpointing). */
export const recomputePolicies = ['none', 'cheap', 'selective', 'full'] as const

const recompute = z
  .union([z.enum(recomputePolicies), z.array(z.enum(recomputable))], {
    error: 'expected none, cheap, selective, full or a list of op names',
  })
  .default('none')
  .describe('activation checkpointing: activations recomputed in the backward pass instead of kept')

/** The kinds of context-parallel attention: all-gather KV, ring, Ulysses. */
export const attentionKinds = ['gather', 'ring', 'ulysses'] as const

const attention = z
  .union(
    [
      z.enum(attentionKinds),
      z.strictObject({
        ulysses: axis.describe('Ulysses degree: ranks that shard heads by all-to-all'),
        ring: axis.describe('ring degree: ranks whose keys and values rotate around the ring'),
      }),
    ],
    { error: 'expected gather, ring, ulysses or { ulysses, ring }' },
  )
  .default('gather')
  .describe('cp: all-gather keys and values, ring attention, Ulysses (all-to-all to heads), or both: { ulysses, ring }')

const layersPerStage = z.int().min(0).max(10_000)
const layers = z
  .union(
    [
      z.literal('even'),
      z.array(layersPerStage).max(10_000),
      z.strictObject({
        first: layersPerStage.optional().describe('layers of the first stage'),
        last: layersPerStage.optional().describe('layers of the last stage'),
      }),
    ],
    { error: 'expected even, a list of layers per stage, or { first, last }' },
  )
  .default('even')
  .describe('layers per stage: even, a list, or the number of layers of the first and the last stage')

const amountOfMemory = (example: string) =>
  z.union(
    [
      z
        .number()
        .positive()
        .max(2 ** 50),
      z.string().transform((text, ctx) => {
        const bytes = parseBytes(text)
        if (bytes !== undefined && bytes > 0) return bytes
        ctx.issues.push(refusal(text, [], 'schema/value/memory', { got: shorten(text, 40), example }))
        return z.NEVER
      }),
    ],
    { error: `expected a memory size such as ${example}, or a number of bytes` },
  )

/** What a plan that does not say does. */
export const usualFlights = { bucket: 25 * 2 ** 20, prefetch: 1 } as const

const PlanFields = z
  .strictObject({
    ...axes,
    shard: axis
      .unwrap()
      .optional()
      .describe('HSDP: ranks of dp that ZeRO shards over; groups of that many are replicas. Default: dp'),
    etp: axis.describe('expert tensor parallelism: ranks that shard each expert'),
    expertCapacity: z
      .union(
        [
          z.literal('worst'),
          z
            .number()
            .min(1)
            .max(2 ** 16),
        ],
        { error: 'expected worst, or a number of at least 1' },
      )
      .default(usualRows)
      .describe('expert buffer capacity as a multiple of a balanced load: a number, or worst; overflow stops the step'),
    zero: z
      .int()
      .min(0)
      .max(3)
      .default(0)
      .describe('1 shards optimizer state over dp, 2 also gradients, 3 also parameters (FSDP)'),
    sequenceParallel: z.boolean().default(false).describe('shard the sequence over tp outside of matmuls'),
    zigzag: z
      .union([z.boolean(), z.literal('documents')], { error: 'expected true, false or documents' })
      .optional()
      .describe(
        'cp: load-balanced causal sharding, an early and a late chunk per rank; default: on where 2 cp divides seq; documents: within each document',
      ),
    attention,
    microbatches: count
      .max(2 ** 16)
      .default(1)
      .describe('microbatches per step (gradient accumulation)'),
    schedule,
    chunks: count.max(64).optional().describe('virtual pipeline stages per rank; by default what the schedule needs'),
    recompute,
    layers,
    gather: z
      .enum(['use', 'step'])
      .default('use')
      .describe('ZeRO-3 all-gathers parameters at each use, or once per step'),
    reduce: z
      .enum(['microbatch', 'step'])
      .default('microbatch')
      .describe('ZeRO-2/3 reduce-scatter gradients after each microbatch, or once per step'),
    precision: z
      .enum(planPrecisions)
      .default('f32')
      .describe(
        planPrecisions
          .flatMap(name => (planPrecisionFacts[name].words ? [`${name}: ${planPrecisionFacts[name].words}`] : []))
          .join('; '),
      ),
    fp8: Fp8.optional().describe(
      'FP8 matmuls in linear layers: E4M3 in forward, E5M2 for gradients; everything else in plan.precision',
    ),
    gradients: z
      .enum(gradientTypes)
      .optional()
      .describe('dtype in which gradients are accumulated; defaults to that of the optimizer state'),
    rounding: z
      .enum(['nearest', 'stochastic'])
      .default('nearest')
      .describe('pure-bf16: round updated parameters to nearest, or stochastically, so that small updates add up'),
    overlap: z.boolean().default(true).describe('overlap communication with computation'),
    bucket: amountOfMemory('25MiB')
      .default(usualFlights.bucket)
      .describe('bucket size of gradient reductions, and of ZeRO-1 and ZeRO-2 parameter all-gathers'),
    prefetch: z
      .int()
      .min(0)
      .max(64)
      .default(usualFlights.prefetch)
      .describe('ZeRO-3 prefetch: number of layers whose parameters are all-gathered ahead'),
    compress: Compression.optional().describe(
      'communication compression: { reduce: bf16 } for gradients, { gather: bf16 } for parameters',
    ),
    offload: Offload.optional().describe('offload to host or disk: { optimizer: host }'),
    rankOrder: z.string().default(defaultOrder).describe('rank order, fastest varying axis first'),
    deviceMemory: amountOfMemory('80GiB').optional().describe('memory of one device, such as 80GiB'),
  })
  .transform(plan => ({
    ...plan,
    chunks: plan.chunks ?? (typeof plan.schedule === 'string' ? scheduleFacts[plan.schedule].chunks : 1),
  }))

/** The schema of a parallelism plan (Zod): axis sizes, ZeRO stage, schedule, precision and the rest of `plan:`. */
export const Plan = throwing(PlanFields)

type RoleShape = Readonly<Record<ParamRole, z.ZodOptional<typeof Multipliers>>>

const TrainingFields = z.strictObject({
  seq: amount(1024).describe('tokens in a sequence; 8k is 8192'),
  globalBatch: amount(1024).describe('sequences per step, over all ranks; 2k is 2048'),
  batchRamp: z
    .array(
      z.strictObject({
        globalBatch: amount(1024).describe('sequences per step'),
        until: amount(1000).optional().describe('sequences after which it ends; 10k is 10,000'),
        tokens: tokens.optional().describe('or tokens after which it ends; 2B is 2,000,000,000'),
      }),
    )
    .max(1024)
    .optional()
    .describe('batch-size ramp before globalBatch: [{ globalBatch: 8, until: 10k }]'),
  optimizer: Optimizer.prefault({ kind: 'adamw', lr: 1e-3 }).describe(either(optimizerKinds)),
  paramGroups: z
    .strictObject(Object.fromEntries(paramRoles.map(role => [role, Multipliers.optional()])) as RoleShape)
    .optional()
    .describe('parameter groups with other settings: { norm: { lr: 0.5 } }'),
  ema: z
    .strictObject({
      decay: z.number().min(0).lt(1).default(0.999).describe('decay rate of the moving average per step'),
    })
    .optional()
    .describe('EMA of the weights, used for validation: { decay: 0.999 }'),
  lora: Lora.optional().describe('LoRA: freeze the model and train adapters: { rank: 8, alpha: 16, targets: [q, v] }'),
  clip: z.number().positive().max(1e9).optional().describe('maximum global gradient norm'),
  skipAbove: z
    .number()
    .positive()
    .max(1e18)
    .optional()
    .describe('skip a step if the grad norm is at least this; NaN and Inf always skip'),
  spikes: z
    .enum(['note', 'skip'])
    .optional()
    .describe('grad-norm spikes: report them (note, the default), or skip the step'),
  lossScale: LossScale.optional().describe('loss scaling: a fixed number, or a dynamic scaler; required for f16'),
  mostSkips: z
    .int()
    .min(1)
    .max(2 ** 30)
    .optional()
    .describe('skipped steps in a row that end the run; default 3, or 64 with dynamic loss scaling'),
  seed: z
    .int()
    .min(0)
    .max(2 ** 32 - 1)
    .default(1)
    .describe('random seed of weights, dropout and data order'),
  steps: amount(1000).default(100).describe('number of training steps; 10k is 10,000'),
  lrSchedule: LrSchedule.prefault({}).describe('learning-rate schedule'),
  evalEvery: z
    .int()
    .min(0)
    .max(2 ** 30)
    .default(0)
    .describe('steps between validations; 0: only after the last step'),
  evalBatches: z
    .int()
    .min(0)
    .max(2 ** 20)
    .default(4)
    .describe('global batches per validation; 0: never validate'),
})

/** The schema of `training:` in a job (Zod): sequence length, global batch, optimizer, learning rate schedule. */
export const Training = throwing(TrainingFields)

/** What tells the documents of a sequence apart. */
export const Documents = z.strictObject({
  eod: z
    .union([
      z.literal('eos'),
      z
        .int()
        .min(0)
        .max(2 ** 24),
    ])
    .default('eos')
    .describe('EOD token that ends each document: its id, or eos for the EOS token of the tokenizer'),
  eodMaskLoss: z
    .boolean()
    .default(false)
    .describe('mask the loss of EOD tokens, which would predict the first token of the next document'),
  pad: count
    .max(2 ** 16)
    .default(1)
    .describe('pad documents to a multiple of this many tokens; padding is masked in the loss'),
})

/** Members of a line that hold a prompt and its answer. */
const PairNames = z.strictObject({
  prompt: z.string().min(1).max(256).describe('prompt field'),
  answer: z.string().min(1).max(256).describe('completion field'),
})

/** Where the tokens come from. Paths are relative to the job file. */
export const Data = z.strictObject({
  source: z
    .string()
    .min(1)
    .max(4096)
    .default('synthetic')
    .describe('a text file, a folder of them, a .bin file of token ids, or synthetic'),
  pairs: z
    .union([z.boolean(), PairNames])
    .optional()
    .describe('JSON Lines with prompt/completion pairs (SFT); the loss is masked to the completion'),
  tokenizer: z
    .string()
    .max(4096)
    .refine(name => name === 'bytes' || name === 'bpe' || name.endsWith('.json'), {
      error: 'expected bytes, bpe or the path of a tokenizer.json',
    })
    .default('bytes')
    .describe('bytes, bpe (trained on the source) or the path of a Hugging Face tokenizer.json'),
  vocab: count
    .max(2 ** 24)
    .optional()
    .describe('vocabulary size of the BPE tokenizer to train; defaults to that of the model'),
  width: z.enum(['u16', 'u32']).default('u16').describe('integer type of token ids in a .bin file, little-endian'),
  routing: z
    .string()
    .min(1)
    .max(4096)
    .optional()
    .describe('recorded routing to replay, one line of JSON per step: { "layers.0": [[[..]]] } for each routed layer'),
  documents: Documents.optional().describe(
    'sequence packing: attention and positions stay within each document; default: one document per sequence',
  ),
  evalFraction: z.number().min(0).lt(1).default(0.05).describe('fraction of the tokens used for validation'),
})

/** The fields of a job: `Job` reads earlier names of them too. */
export const JobFields = z.strictObject({
  name: z.string().max(200).optional().describe('name of the job'),
  model: ModelConfig.describe('a preset, a Hugging Face config.json, or sizes'),
  training: Training.describe('batch, sequence length, optimizer and schedule'),
  data: Data.optional().describe('training data; defaults to a synthetic task'),
  plan: Plan.prefault({}).describe('parallelism, precision and memory'),
})

export type Plan = z.output<typeof Plan>
export type PlanInput = z.input<typeof Plan>
export type Training = z.output<typeof Training>
export type Data = z.output<typeof Data>
export type Documents = z.output<typeof Documents>
export type { Job } from './job-value.js'
export type JobInput = z.input<typeof JobFields>
