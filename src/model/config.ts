/**
 * What is trained, as a few numbers: one strict schema per family. The schema gives the type, the check, the help
 * and the JSON schema; after parsing every default is resolved, so nothing below asks "and if it is missing?".
 */
import { z } from 'zod'
import { refusal, roomOrders, scorings, throwing } from '../base/index.js'

/** Sizes have a ceiling, so that a slip of the keyboard is a problem and not an hour of compiling. */
const size = (most: number) => z.int().min(1).max(most)
const layers = size(10_000).describe('number of layers (blocks)')
const embed = size(2 ** 20).describe('hidden size (d_model)')
const heads = size(2 ** 14).describe('query heads')
const kvHeads = heads.optional().describe('key-value heads; defaults to heads')
const ffn = size(2 ** 24).describe('intermediate size of the feed-forward layer')
const vocab = size(2 ** 24).describe('tokens in the vocabulary')
const eps = z.number().positive().max(1).default(1e-5).describe('added to the variance in norms')
const positions = size(2 ** 30)
  .optional()
  .describe('maximum sequence length')

const losses = z.strictObject({
  sequence: z.number().min(0).max(1e3).default(0).describe('load-balancing loss per sequence'),
  microbatch: z.number().min(0).max(1e3).default(0).describe('load-balancing loss per microbatch'),
  z: z.number().min(0).max(1e3).default(0).describe('router z-loss'),
})

const capacity = z.strictObject({
  factor: z.number().positive().max(1e6).describe('capacity factor: capacity of an expert relative to a balanced load'),
  order: z
    .enum(roomOrders)
    .default('choice')
    .describe('which tokens are kept: first choices, earlier tokens, or higher scores'),
  renormalize: z.boolean().default(false).describe('renormalize the weights of the experts that kept the token'),
  group: z
    .union([z.literal('sequence'), size(2 ** 30)])
    .default('sequence')
    .describe('tokens that share the capacity: a sequence, or a number of consecutive tokens'),
  least: z
    .int()
    .min(0)
    .max(2 ** 30)
    .default(0)
    .describe('minimum capacity of an expert'),
})

/** The feed-forward of a layer, routed to experts. */
export const MoeConfig = z.strictObject({
  experts: size(2 ** 16).describe('experts per routed layer'),
  topK: size(2 ** 10).describe('experts per token (top-k)'),
  ffn: ffn.describe('intermediate size of an expert; defaults to ffn'),
  scores: z.enum(scorings).default('softmax').describe('router score function'),
  normalize: z.boolean().default(true).describe('normalize the top-k weights'),
  scale: z.number().positive().max(1e6).default(1).describe('scaling factor of the top-k weights'),
  groups: size(2 ** 16)
    .optional()
    .describe('expert groups (group-limited routing)'),
  topKGroups: size(2 ** 16)
    .optional()
    .describe('groups per token (top-k groups)'),
  bias: z
    .number()
    .positive()
    .max(1e3)
    .optional()
    .describe('update rate of the router bias (auxiliary-loss-free balancing)'),
  shared: ffn.optional().describe('intermediate size of the shared expert'),
  sharedGate: z.boolean().default(false).describe('sigmoid gate on the shared expert'),
  dense: z.int().min(0).max(10_000).default(0).describe('number of dense layers at the start'),
  every: size(10_000).default(1).describe('every n-th of the other layers is routed'),
  loss: losses.optional().describe('coefficients of the auxiliary (load-balancing) losses'),
  capacity: capacity.optional().describe('expert capacity; without it no token is dropped'),
})

/** As it is written: how many experts there are, and a token meets, may stand among the other sizes of the model. */
const MoeWritten = MoeConfig.partial({ experts: true, topK: true, ffn: true })

interface MixtureWritten {
  readonly experts?: number | undefined
  readonly topK?: number | undefined
  readonly ffn: number
  readonly moe?: z.output<typeof MoeWritten> | undefined
}

/** The experts of a model, wherever their numbers stand; experts as wide as a dense layer unless it is said. */
function mixtureOf({ experts, topK, ffn, moe }: MixtureWritten, ctx: z.core.$RefinementCtx): MoeConfig | undefined {
  if (experts === undefined && topK === undefined && !moe) return undefined
  const agreed = (short: 'experts' | 'topK', beside: number | undefined, inside: number | undefined): number => {
    const value = beside ?? inside
    if (value === undefined) ctx.issues.push(refusal(value, ['moe', short], 'schema/value/experts'))
    else if (inside !== undefined && inside !== value)
      ctx.issues.push(refusal(value, [short], 'schema/value/twice', { value, other: `moe.${short}`, got: inside }))
    return value ?? 1
  }
  const [all, each] = [agreed('experts', experts, moe?.experts), agreed('topK', topK, moe?.topK)]
  return {
    ...MoeConfig.parse({ experts: all, topK: each, ffn }),
    ...moe,
    experts: all,
    topK: each,
    ffn: moe?.ffn ?? ffn,
  }
}

export const MlpConfig = z
  .strictObject({
    family: z.literal('mlp').describe('matmul, GELU, matmul, added to the residual; mean-square loss'),
    layers,
    embed,
    ffn: ffn.optional().describe('width of the hidden layer; default 4 x embed'),
  })
  .transform(c => ({ ...c, ffn: c.ffn ?? 4 * c.embed }))

export const GptConfig = z
  .strictObject({
    family: z.literal('gpt').describe('learned position embeddings, LayerNorm, GELU, biases everywhere'),
    layers,
    embed,
    heads,
    kvHeads,
    ffn: ffn.optional().describe('intermediate size; default 4 x embed'),
    vocab,
    tied: z.boolean().default(true).describe('tie the output head to the embedding'),
    dropout: z.number().min(0).lt(1).default(0).describe('dropout probability'),
    eps,
    positions,
  })
  .transform(c => ({ ...c, kvHeads: c.kvHeads ?? c.heads, ffn: c.ffn ?? 4 * c.embed }))

const slower = z
  .number()
  .min(1)
  .max(2 ** 20)
  .describe('scaling factor')
const original = size(2 ** 30).describe('original context length')
const turns = (what: string) =>
  z
    .number()
    .positive()
    .max(2 ** 30)
    .describe(what)
const share = z.number().min(0).max(100)

const RopeScaling = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('linear').describe('linear position interpolation'), factor: slower }),
  z.strictObject({
    kind: z.literal('llama3').describe('Llama 3.1: low frequencies are scaled'),
    factor: slower,
    low: turns('low_freq_factor: dims with fewer rotations over the original context are interpolated').default(1),
    high: turns('high_freq_factor: dims with more rotations over the original context are unchanged').default(4),
    original,
  }),
  z.strictObject({
    kind: z.literal('yarn').describe('YaRN: low frequencies are scaled, with an attention temperature'),
    factor: slower,
    original,
    fast: turns('beta_fast: dims with more rotations over the original context are unchanged').default(32),
    slow: turns('beta_slow: dims with fewer rotations over the original context are interpolated').default(1),
    scale: share.default(1).describe('mscale: queries and keys are multiplied by 0.1 mscale ln(factor) + 1'),
    scaleAll: share
      .default(0)
      .describe('mscale_all_dim: divides that factor; latent attention applies it twice to its scores'),
  }),
])

const Latent = z.strictObject({
  qLoraRank: size(2 ** 16)
    .optional()
    .describe('q_lora_rank: rank of the query latent; default: no query latent'),
  kvLoraRank: size(2 ** 16).describe('kv_lora_rank: rank of the key-value latent'),
  qkRopeHeadDim: size(2 ** 14).describe('qk_rope_head_dim: rotary dims per head; one key for all heads'),
  qkNopeHeadDim: size(2 ** 14).describe('qk_nope_head_dim: dims without rotary embedding'),
  vHeadDim: size(2 ** 14).describe('v_head_dim: value dims per head'),
  eps: z
    .number()
    .positive()
    .max(1)
    .optional()
    .describe('added to the variance in the latent norms; defaults to eps')
    .meta({ examples: [1e-6] }),
})

export const LlamaConfig = z
  .strictObject({
    family: z.literal('llama').describe('RMSNorm, rotary positions, grouped-query attention, SwiGLU'),
    layers,
    embed,
    heads,
    kvHeads,
    headDim: size(2 ** 14)
      .optional()
      .describe('dims per head; default embed / heads'),
    ffn,
    vocab,
    ropeTheta: z.number().positive().max(1e15).default(10000).describe('base of the rotary frequencies'),
    ropeScaling: RopeScaling.optional().describe('RoPE scaling for longer contexts'),
    eps,
    tied: z.boolean().default(false).describe('tie the output head to the embedding'),
    qkvBias: z.boolean().default(false).describe('biases on query, key and value (Qwen 2)'),
    qkNorm: z.boolean().default(false).describe('RMSNorm on each head of query and key (Qwen 3)'),
    mla: Latent.optional().describe('multi-head latent attention (DeepSeek)'),
    window: size(2 ** 30)
      .optional()
      .describe('sliding window: attention sees this many positions'),
    experts: size(2 ** 16)
      .optional()
      .describe('experts of a routed layer: short for moe.experts'),
    topK: size(2 ** 10)
      .optional()
      .describe('experts that a token is sent to: short for moe.topK'),
    moe: MoeWritten.optional().describe('mixture of experts in the feed-forward layers'),
    positions,
  })
  // A fractional headDim is how `check` knows that it was left out and that heads do not divide embed.
  .transform(({ experts, topK, moe, mla, ...c }, ctx) => {
    const mixture = mixtureOf({ experts, topK, ffn: c.ffn, moe }, ctx)
    return {
      ...c,
      ...(mixture && { moe: mixture }),
      ...(mla && { mla: { ...mla, eps: mla.eps ?? c.eps } }),
      kvHeads: c.kvHeads ?? c.heads,
      headDim: c.headDim ?? usualHeadDim({ ...c, mla }),
    }
  })

const usualHeadDim = ({
  embed,
  heads,
  mla,
}: {
  embed: number
  heads: number
  mla?: z.output<typeof Latent> | undefined
}): number => (mla ? mla.qkNopeHeadDim + mla.qkRopeHeadDim : embed / heads)

/** The schema of `model:` in a job (Zod): sizes of one of the supported families. */
export const ModelConfig = throwing(z.discriminatedUnion('family', [MlpConfig, GptConfig, LlamaConfig]))

export type MlpConfig = z.output<typeof MlpConfig>
export type GptConfig = z.output<typeof GptConfig>
export type LlamaConfig = z.output<typeof LlamaConfig>
export type MoeConfig = z.output<typeof MoeConfig>
export type ModelConfig = z.output<typeof ModelConfig>
export type LlamaInput = z.input<typeof LlamaConfig>
/** A model as written in a file: defaults may be missing. */
export type ModelInput = z.input<typeof ModelConfig>

const mlpParameters = (c: MlpConfig) => c.embed ** 2 + c.layers * (2 * c.embed * c.ffn + c.embed + c.ffn)

function gptParameters(c: GptConfig, seq: number): number {
  const known = (2 * c.kvHeads * c.embed) / c.heads // keys and values of a token
  const attention = (2 * c.embed + known) * c.embed + 2 * c.embed + known
  const feedForward = 2 * c.embed * c.ffn + c.ffn + c.embed
  const norm = 2 * c.embed
  const tables = (c.tied ? 1 : 2) * c.vocab * c.embed + seq * c.embed
  return tables + c.layers * (attention + feedForward + 2 * norm) + norm
}

/** Queries, keys, values and what is made of them: one layer's. */
function attentionParameters(c: LlamaConfig): number {
  if (c.mla) return latentParameters(c, c.mla)
  const heads = c.heads + 2 * c.kvHeads
  const extras = (c.qkvBias ? heads * c.headDim : 0) + (c.qkNorm ? 2 * c.headDim : 0)
  return c.embed * c.headDim * (heads + c.heads) + extras
}

/** Of latent attention. */
function latentParameters({ embed, heads }: LlamaConfig, mla: NonNullable<LlamaConfig['mla']>): number {
  const { qLoraRank, kvLoraRank, qkRopeHeadDim, qkNopeHeadDim, vHeadDim } = mla
  const queries = heads * (qkNopeHeadDim + qkRopeHeadDim)
  const asked = qLoraRank ? embed * qLoraRank + qLoraRank + qLoraRank * queries : embed * queries
  const known = embed * (kvLoraRank + qkRopeHeadDim) + kvLoraRank + kvLoraRank * heads * (qkNopeHeadDim + vHeadDim)
  return asked + known + heads * vHeadDim * embed
}

function llamaParameters(c: LlamaConfig): number {
  const block = attentionParameters(c) + 2 * c.embed
  const routed = routedLayers(c).length
  const feeds = (c.layers - routed) * 3 * c.embed * c.ffn + (c.moe ? routed * routedParameters(c.embed, c.moe) : 0)
  return (c.tied ? 1 : 2) * c.vocab * c.embed + c.layers * block + feeds + c.embed
}

/** How many of the numbers a token meets: of the experts of each layer those it is sent to. */
export function activeParametersOf(config: ModelConfig, seq: number): number {
  const all = parametersOf(config, seq)
  if (config.family !== 'llama' || !config.moe) return all
  const { experts, topK, ffn } = config.moe
  return all - routedLayers(config).length * 3 * config.embed * ffn * (experts - topK)
}

/** Router, bias of the choice, experts and the shared one with its gate. */
function routedParameters(embed: number, { experts, ffn, bias, shared = 0, sharedGate }: MoeConfig): number {
  const router = experts * embed + (bias === undefined ? 0 : experts)
  return router + 3 * embed * (experts * ffn + shared) + (sharedGate ? embed : 0)
}

/** The layers whose feed-forward is routed, by number. */
export function routedLayers({ layers, moe }: Pick<LlamaConfig, 'layers' | 'moe'>): number[] {
  const isRouted = (layer: number) => moe && layer >= moe.dense && (layer - moe.dense + 1) % moe.every === 0
  return Array.from({ length: layers }, (_, layer) => layer).filter(isRouted)
}

/** The model with so many layers of each kind, dense and routed in turn. */
export function layersOfEachKind(model: ModelConfig, each: number): ModelConfig {
  if (model.family !== 'llama' || !model.moe) return { ...model, layers: each }
  const routed = routedLayers(model).length
  if (routed === 0) return { ...model, layers: each, moe: { ...model.moe, dense: each, every: 1 } }
  const kinds = routed === model.layers ? 1 : 2
  return { ...model, layers: kinds * each, moe: { ...model.moe, dense: 0, every: kinds } }
}

/** Exactly how many numbers are trained. Learned positions have `seq` rows; a tied head counts once. */
export function parametersOf(config: ModelConfig, seq: number): number {
  switch (config.family) {
    case 'mlp':
      return mlpParameters(config)
    case 'gpt':
      return gptParameters(config, seq)
    case 'llama':
      return llamaParameters(config)
  }
}
