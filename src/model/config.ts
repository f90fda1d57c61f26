/**
 * What is trained, as a few numbers: one strict schema per family. The schema gives the type, the check, the help
 * and the JSON schema; after parsing every default is resolved, so nothing below asks "and if it is missing?".
 */
import { z } from 'zod'
import { refusal, roomOrders, scorings } from '../base/index.js'

/** Sizes have a ceiling, so that a slip of the keyboard is a problem and not an hour of compiling. */
const size = (most: number) => z.int().min(1).max(most)
const layers = size(10_000).describe('blocks, one after the other')
const embed = size(2 ** 20).describe('width of the residual stream')
const heads = size(2 ** 14).describe('query heads')
const kvHeads = heads.optional().describe('key-value heads; as many as heads if not given')
const ffn = size(2 ** 24).describe('width of the feed-forward layer')
const vocab = size(2 ** 24).describe('tokens in the vocabulary')
const eps = z.number().positive().max(1).default(1e-5).describe('added to the variance in norms')
const positions = size(2 ** 30)
  .optional()
  .describe('longest sequence the model was made for')

const losses = z.strictObject({
  sequence: z
    .number()
    .min(0)
    .max(1e3)
    .default(0)
    .describe('of the balance within each sequence, the mean over sequences'),
  microbatch: z
    .number()
    .min(0)
    .max(1e3)
    .default(0)
    .describe('of the balance within each microbatch, the mean over them'),
  z: z.number().min(0).max(1e3).default(0).describe('of the square of the logarithm of the sum of exp(logits)'),
})

const capacity = z.strictObject({
  factor: z.number().positive().max(1e6).describe('room of an expert, over its even share of the choices'),
  order: z
    .enum(roomOrders)
    .default('choice')
    .describe('who comes first: first choices, earlier tokens, or higher scores'),
  renormalise: z.boolean().default(false).describe('weights are divided by the sum of those that are kept'),
  group: z
    .union([z.literal('sequence'), size(2 ** 30)])
    .default('sequence')
    .describe('tokens that share the room: a sequence, or so many that follow each other'),
  least: z
    .int()
    .min(0)
    .max(2 ** 30)
    .default(0)
    .describe('room that an expert has at least'),
})

/** The feed-forward of a layer, routed to experts. */
export const MoeConfig = z.strictObject({
  experts: size(2 ** 16).describe('experts of a routed layer'),
  chosen: size(2 ** 10).describe('experts that a token is sent to'),
  ffn: ffn.describe('width of one expert; as a dense layer if not given'),
  scores: z.enum(scorings).default('softmax').describe('what the router makes of its logits'),
  normalise: z.boolean().default(true).describe('weights of the chosen are divided by their sum'),
  scale: z.number().positive().max(1e6).default(1).describe('what weights are multiplied with'),
  groups: size(2 ** 16)
    .optional()
    .describe('groups of experts, of which some may be chosen from'),
  chosenGroups: size(2 ** 16)
    .optional()
    .describe('groups that may be chosen from'),
  bias: z.number().positive().max(1e3).optional().describe('rate at which a bias of the choice follows the load'),
  shared: ffn.optional().describe('width of the expert that sees every token'),
  sharedGate: z.boolean().default(false).describe('the shared expert times the sigmoid of a product with the token'),
  dense: z.int().min(0).max(10_000).default(0).describe('the first so many layers are not routed'),
  every: size(10_000).default(1).describe('of the others every so many is routed'),
  loss: losses.optional().describe('coefficients of the losses that balance the experts'),
  capacity: capacity.optional().describe('room of the experts; without it nothing is dropped'),
})

/** As it is written: how many experts there are, and a token meets, may stand among the other sizes of the model. */
const MoeWritten = MoeConfig.partial({ experts: true, chosen: true, ffn: true })

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
    const name = short === 'topK' ? 'chosen' : short
    if (value === undefined) ctx.issues.push(refusal(value, ['moe', name], 'schema/value/experts'))
    else if (inside !== undefined && inside !== value)
      ctx.issues.push(refusal(value, [short], 'schema/value/twice', { value, other: `moe.${name}`, got: inside }))
    return value ?? 1
  }
  const [all, chosen] = [agreed('experts', experts, moe?.experts), agreed('topK', topK, moe?.chosen)]
  return { ...MoeConfig.parse({ experts: all, chosen, ffn }), ...moe, experts: all, chosen, ffn: moe?.ffn ?? ffn }
}

export const MlpConfig = z
  .strictObject({
    family: z.literal('mlp').describe('matmul, GELU, matmul, added to the residual; mean-square loss'),
    layers,
    embed,
    ffn: ffn.optional().describe('width of the hidden layer; 4 x embed if not given'),
  })
  .transform(c => ({ ...c, ffn: c.ffn ?? 4 * c.embed }))

export const GptConfig = z
  .strictObject({
    family: z.literal('gpt').describe('learned positions, LayerNorm, GELU, biases everywhere'),
    layers,
    embed,
    heads,
    kvHeads,
    ffn: ffn.optional().describe('width of the feed-forward layer; 4 x embed if not given'),
    vocab,
    tied: z.boolean().default(true).describe('the head uses the embedding table'),
    dropout: z.number().min(0).lt(1).default(0).describe('chance that an element is dropped'),
    eps,
    positions,
  })
  .transform(c => ({ ...c, kvHeads: c.kvHeads ?? c.heads, ffn: c.ffn ?? 4 * c.embed }))

const slower = z
  .number()
  .min(1)
  .max(2 ** 20)
  .describe('so many times more slowly')
const original = size(2 ** 30).describe('positions the model was trained on before')
const turns = (what: string) =>
  z
    .number()
    .positive()
    .max(2 ** 30)
    .describe(what)
const share = z.number().min(0).max(100)

const RopeScaling = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('linear').describe('every pair turns more slowly'), factor: slower }),
  z.strictObject({
    kind: z.literal('llama3').describe('slow pairs turn more slowly (Llama 3.1)'),
    factor: slower,
    low: turns('pairs with fewer turns in the original positions are slowed').default(1),
    high: turns('pairs with more turns in the original positions stay').default(4),
    original,
  }),
  z.strictObject({
    kind: z.literal('yarn').describe('slow pairs turn more slowly, and what is turned grows (YaRN)'),
    factor: slower,
    original,
    fast: turns('pairs with more turns in the original positions stay').default(32),
    slow: turns('pairs with fewer turns in the original positions are slowed').default(1),
    scale: share.default(1).describe('m of 0.1 m ln(factor) + 1, by which queries and keys grow'),
    scaleAll: share
      .default(0)
      .describe('m of what they are divided by; latent attention multiplies its scores by it twice'),
  }),
])

const Latent = z.strictObject({
  queryRank: size(2 ** 16)
    .optional()
    .describe('width of the latent of queries; they are projected at once if not given'),
  keyValueRank: size(2 ** 16).describe('width of the latent of keys and values'),
  ropeDim: size(2 ** 14).describe('of a query or key, the part that has positions; one key for all heads'),
  plainDim: size(2 ** 14).describe('the part that has none'),
  valueDim: size(2 ** 14).describe('width of a value'),
  eps: z
    .number()
    .positive()
    .max(1)
    .optional()
    .describe('added to the variance in the norms of both latents; eps of the model if not given')
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
      .describe('width of one head; embed / heads if not given'),
    ffn,
    vocab,
    ropeTheta: z.number().positive().max(1e15).default(10000).describe('base of the rotary angles'),
    ropeScaling: RopeScaling.optional().describe('rotary angles for longer sequences than those trained on before'),
    eps,
    tied: z.boolean().default(false).describe('the head uses the embedding table'),
    qkvBias: z.boolean().default(false).describe('biases on query, key and value (Qwen 2)'),
    qkNorm: z.boolean().default(false).describe('RMSNorm on each head of query and key (Qwen 3)'),
    mla: Latent.optional().describe('latent attention (DeepSeek): keys and values from one narrow latent'),
    window: size(2 ** 30)
      .optional()
      .describe('sliding window: attention sees this many positions'),
    experts: size(2 ** 16)
      .optional()
      .describe('experts of a routed layer: short for moe.experts'),
    topK: size(2 ** 10)
      .optional()
      .describe('experts that a token is sent to: short for moe.chosen'),
    moe: MoeWritten.optional().describe('the feed-forward of layers is routed to experts'),
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
}): number => (mla ? mla.plainDim + mla.ropeDim : embed / heads)

export const ModelConfig = z.discriminatedUnion('family', [MlpConfig, GptConfig, LlamaConfig])

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
  const { queryRank, keyValueRank, ropeDim, plainDim, valueDim } = mla
  const queries = heads * (plainDim + ropeDim)
  const asked = queryRank ? embed * queryRank + queryRank + queryRank * queries : embed * queries
  const known = embed * (keyValueRank + ropeDim) + keyValueRank + keyValueRank * heads * (plainDim + valueDim)
  return asked + known + heads * valueDim * embed
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
  const { experts, chosen, ffn } = config.moe
  return all - routedLayers(config).length * 3 * config.embed * ffn * (experts - chosen)
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
