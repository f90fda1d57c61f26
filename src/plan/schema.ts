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
      { error: 'expected a whole number, such as 8192 or 8k' },
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
      z.strictObject({ file: z.string().min(1).describe('a CSV file in the notation of PyTorch') }),
    ],
    { error: `expected a schedule (${scheduleNames.join(', ')}) or a .csv file` },
  )
  .default('1f1b')
  .describe('order of the pipeline tasks: a name, or a CSV file in the notation of PyTorch')

/** What is computed again, by one word. */
export const recomputePolicies = ['none', 'cheap', 'selective', 'full'] as const

const recompute = z
  .union([z.enum(recomputePolicies), z.array(z.enum(recomputable))], {
    error: 'expected none, cheap, selective, full or a list of op names',
  })
  .default('none')
  .describe('forward values computed again in backward instead of kept')

/** Ways to let queries meet the keys of other ranks. */
export const attentionKinds = ['gather', 'ring', 'ulysses'] as const

const attention = z
  .union(
    [
      z.enum(attentionKinds),
      z.strictObject({
        ulysses: axis.describe('ranks that exchange sequence for heads'),
        ring: axis.describe('ranks whose keys go round'),
      }),
    ],
    { error: 'expected gather, ring, ulysses or { ulysses, ring }' },
  )
  .default('gather')
  .describe(
    'cp: keys and values are gathered, go round in a ring, or are exchanged so that ranks split heads; or both, { ulysses, ring }',
  )

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
  .describe('layers of each stage: even, a list, or how many the first and the last stage get')

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
    { error: `expected an amount of memory such as ${example}, or a number of bytes` },
  )

/** What a plan that does not say does. */
export const usualFlights = { bucket: 25 * 2 ** 20, prefetch: 1 } as const

export const Plan = z
  .strictObject({
    ...axes,
    etp: axis.describe('ranks of dp x cp x tp that split every expert'),
    rows: z
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
      .describe('room for rows of experts, over an even share: a number, or worst; more stops the step'),
    zero: z
      .int()
      .min(0)
      .max(3)
      .default(0)
      .describe('1 splits optimizer state over dp, 2 gradients too, 3 parameters too'),
    sequenceParallel: z.boolean().default(false).describe('split the sequence over tp where no matmul needs it whole'),
    zigzag: z
      .union([z.boolean(), z.literal('documents')], { error: 'expected true, false or documents' })
      .optional()
      .describe(
        'cp: each rank gets an early and a late chunk of the sequence, for equal work; on where 2 cp divides seq; documents: of each document',
      ),
    attention,
    microbatches: count
      .max(2 ** 16)
      .default(1)
      .describe('pieces a batch is cut into, one after the other'),
    schedule,
    chunks: count.max(64).optional().describe('stages each pipeline rank holds; what the schedule wants if not given'),
    recompute,
    layers,
    gather: z.enum(['use', 'step']).default('use').describe('ZeRO-3 gathers parameters at each use, or once a step'),
    reduce: z
      .enum(['microbatch', 'step'])
      .default('microbatch')
      .describe('ZeRO-2/3 reduce gradients after each microbatch, or once a step'),
    precision: z
      .enum(planPrecisions)
      .default('f32')
      .describe(
        planPrecisions
          .flatMap(name => (planPrecisionFacts[name].words ? [`${name}: ${planPrecisionFacts[name].words}`] : []))
          .join('; '),
      ),
    fp8: Fp8.optional().describe(
      'products of linear layers on 8 bits, E4M3 forward and E5M2 for gradients; the rest as precision says',
    ),
    gradients: z
      .enum(gradientTypes)
      .optional()
      .describe('what gradients of parameters are summed in; as wide as the optimizer state if not given'),
    rounding: z
      .enum(['nearest', 'stochastic'])
      .default('nearest')
      .describe(
        'pure-bf16: what a step makes of a parameter is rounded to the nearest, or up or down by chance, so that small steps add up',
      ),
    overlap: z.boolean().default(true).describe('start collectives early and wait late'),
    bucket: amountOfMemory('25MiB')
      .default(usualFlights.bucket)
      .describe('bytes of gradients that are reduced together, and of ZeRO-1 and ZeRO-2 parameters gathered together'),
    prefetch: z
      .int()
      .min(0)
      .max(64)
      .default(usualFlights.prefetch)
      .describe('layers ahead of which ZeRO-3 gathers parameters'),
    compress: Compression.optional().describe(
      'what crosses the wire in fewer bits: { reduce: bf16 } for gradients, { gather: bf16 } for parameters',
    ),
    offload: Offload.optional().describe('what lives elsewhere than on the device: { optimizer: host }'),
    order: z.string().default(defaultOrder).describe('rank order, fastest varying axis first'),
    deviceMemory: amountOfMemory('80GiB').optional().describe('memory of one device, such as 80GiB'),
  })
  .transform(plan => ({
    ...plan,
    chunks: plan.chunks ?? (typeof plan.schedule === 'string' ? scheduleFacts[plan.schedule].chunks : 1),
  }))

type RoleShape = Readonly<Record<ParamRole, z.ZodOptional<typeof Multipliers>>>

export const Training = z.strictObject({
  seq: amount(1024).describe('tokens in a sequence; 8k is 8192'),
  globalBatch: amount(1024).describe('sequences in one step, over all ranks; 2k is 2048'),
  batchRamp: z
    .array(
      z.strictObject({
        globalBatch: amount(1024).describe('sequences in one step'),
        until: amount(1000).optional().describe('so many sequences have been seen; 10k is 10,000'),
        tokens: tokens.optional().describe('or so many tokens; 2B is 2,000,000,000'),
      }),
    )
    .max(1024)
    .optional()
    .describe('batches before globalBatch, each until so much was seen: [{ globalBatch: 8, until: 10k }]'),
  optimizer: Optimizer.prefault({ kind: 'adamw', lr: 1e-3 }).describe(either(optimizerKinds)),
  roles: z
    .strictObject(Object.fromEntries(paramRoles.map(role => [role, Multipliers.optional()])) as RoleShape)
    .optional()
    .describe('what the optimizer is told else for some parameters: { norm: { lr: 0.5 } }'),
  ema: z
    .strictObject({
      decay: z.number().min(0).lt(1).default(0.999).describe('the part of the average that stays, in each step'),
    })
    .optional()
    .describe('a moving average of the weights, which evaluations read: { decay: 0.999 }'),
  lora: Lora.optional().describe(
    'all parameters stay as they are but for adapters beside some matrices: { rank: 8, alpha: 16, targets: [q, v] }',
  ),
  clip: z.number().positive().max(1e9).optional().describe('greatest norm of the whole gradient'),
  skipAbove: z
    .number()
    .positive()
    .max(1e18)
    .optional()
    .describe('a step whose gradient norm is not below it changes nothing; nor does one whose norm is not finite'),
  spikes: z
    .enum(['note', 'skip'])
    .optional()
    .describe('a step whose gradient norm is far above those before it is noted (if not given), or changes nothing'),
  lossScale: LossScale.optional().describe(
    'gradients are computed so many times as large: a number that stays, or how it moves; f16 needs it',
  ),
  mostSkips: z
    .int()
    .min(1)
    .max(2 ** 30)
    .optional()
    .describe('so many steps skipped in a row end the run; 3 if not given, 64 where the loss scale moves'),
  seed: z
    .int()
    .min(0)
    .max(2 ** 32 - 1)
    .default(1)
    .describe('fixes the weights, the masks and the data'),
  steps: amount(1000).default(100).describe('steps of a run; 10k is 10,000'),
  lrSchedule: LrSchedule.prefault({}).describe('the learning rate over the steps'),
  evalEvery: z
    .int()
    .min(0)
    .max(2 ** 30)
    .default(0)
    .describe('steps between evaluations; 0: only after the last step'),
  evalBatches: z
    .int()
    .min(0)
    .max(2 ** 20)
    .default(4)
    .describe('global batches of an evaluation; 0: never evaluate'),
})

/** What tells the documents of a sequence apart. */
export const Documents = z.strictObject({
  separator: z
    .union([
      z.literal('end'),
      z
        .int()
        .min(0)
        .max(2 ** 24),
    ])
    .default('end')
    .describe('the token that ends a document: its id, or end, which the tokenizer puts after each text'),
  labels: z
    .enum(['all', 'within'])
    .default('all')
    .describe('all: the last token of a document predicts the first of the next; within: it predicts nothing'),
  pad: count
    .max(2 ** 16)
    .default(1)
    .describe('documents are filled up to a multiple of so many tokens, which predict nothing'),
})

/** Members of a line that hold a prompt and its answer. */
const PairNames = z.strictObject({
  prompt: z.string().min(1).max(256).describe('what is read'),
  answer: z.string().min(1).max(256).describe('what is learned'),
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
    .describe('a line of the source is a JSON object with a prompt and an answer, of which only the answer is learned'),
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
    .describe('tokens of a bpe to be trained; as many as the model has if not given'),
  width: z.enum(['u16', 'u32']).default('u16').describe('the ids of a .bin file, least byte first'),
  choices: z
    .string()
    .min(1)
    .max(4096)
    .optional()
    .describe('choices of experts to repeat, a line of JSON per step: { "layers.0": [[[..]]] } for each routed layer'),
  documents: Documents.optional().describe(
    'sequences hold several documents: attention and positions stay within each; without it a sequence is one',
  ),
  evalFraction: z.number().min(0).lt(1).default(0.05).describe('share of the tokens held out for evaluation'),
})

export const Job = z.strictObject({
  name: z.string().max(200).optional().describe('what to call it'),
  model: ModelConfig.describe('a preset, a Hugging Face config.json, or sizes'),
  training: Training.describe('what one step is'),
  data: Data.optional().describe('what it is trained on; the synthetic task if not given'),
  plan: Plan.prefault({}).describe('how the model is laid on the mesh'),
})

export type Plan = z.output<typeof Plan>
export type PlanInput = z.input<typeof Plan>
export type Training = z.output<typeof Training>
export type Data = z.output<typeof Data>
export type Documents = z.output<typeof Documents>
export type Job = z.output<typeof Job>
export type JobInput = z.input<typeof Job>
