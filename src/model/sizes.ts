/** What a model amounts to: its parameters part by part, the work of a token, the bytes of its weights and of its cache. */
import { bytesPer, type DType } from '../base/index.js'
import { activeParametersOf, type LlamaConfig, type ModelConfig, parametersOf } from './config.js'
import { buildModel } from './family.js'
import { flopsPerToken } from './flops.js'

/** What weights are kept in. */
export const weightTypes = ['f32', 'bf16', 'f8e4m3'] as const satisfies readonly DType[]
export type WeightType = (typeof weightTypes)[number]

/** The size of a model: parameters, active parameters, FLOPs and KV cache per token, bytes of weights. */
export interface ModelSizes {
  /** The sequence length for FLOPs and learned position embeddings. */
  readonly seq: number
  readonly parameters: number
  /** Active parameters: those a token is routed to. */
  readonly active: number
  /** Floating-point operations of one token, as PaLM counts them (flops.ts). */
  readonly flops: { readonly forward: number; readonly training: number }
  /** Bytes of the weights alone. */
  readonly weights: Readonly<Record<WeightType, number>>
  /** Bytes of weights, gradients and optimizer state in bf16 training with AdamW. */
  readonly trained: number
  /** Bytes of the keys and values of one token in bf16, over all layers. */
  readonly cache: number
}

/** bf16 weights 2, f32 gradients 4, masters 4, both moments 8: what `precision: bf16` keeps with AdamW. */
export const trainedBytes = 18

/** The longest sequence a model was made for; 1024 where it does not say. */
export const contextOfModel = (model: ModelConfig): number => ('positions' in model && model.positions) || 1024

/** Counts parameters, FLOPs and bytes of a model, at a sequence length. */
export function sizesOf(model: ModelConfig, seq = contextOfModel(model)): ModelSizes {
  const parameters = parametersOf(model, seq)
  const training = flopsPerToken(model, seq)
  return {
    ...{ seq, parameters, active: activeParametersOf(model, seq), flops: { forward: training / 3, training } },
    weights: {
      f32: parameters * bytesPer.f32,
      bf16: parameters * bytesPer.bf16,
      f8e4m3: parameters * bytesPer.f8e4m3,
    },
    trained: trainedBytes * parameters,
    cache: cachedNumbers(model) * bytesPer.bf16,
  }
}

/** Numbers that generation keeps of a token. */
function cachedNumbers(model: ModelConfig): number {
  if (model.family === 'mlp') return 0
  return (
    model.layers * (model.family === 'gpt' ? (2 * model.kvHeads * model.embed) / model.heads : cachedOfLayer(model))
  )
}

/** Latent attention keeps the latent, and the one key that has a position. */
const cachedOfLayer = ({ mla, kvHeads, headDim }: LlamaConfig): number =>
  mla ? mla.kvLoraRank + mla.qkRopeHeadDim : 2 * kvHeads * headDim

/** Parameters of one name, equal in this number of layers. */
export interface ModelPart {
  readonly name: string
  /** 'embed 4096 x ffn 14336' */
  readonly dims: string
  readonly count: number
  /** Of all of them together. */
  readonly parameters: number
}

/** The parameters of a model by shape and size; equal ones of different layers are grouped. */
export function partsOfModel(model: ModelConfig, seq = contextOfModel(model)): ModelPart[] {
  const parts = new Map<string, ModelPart>()
  for (const { name: full, dims } of buildModel(model, { batch: 1, seq }).params) {
    const name = full.replace(/^layers\.\d+\./, 'layers.*.')
    const size = dims.reduce((n, dim) => n * dim.size, 1)
    const words = dims.map(dim => `${dim.name} ${dim.size}`).join(' x ')
    const { count, parameters } = parts.get(name) ?? { count: 0, parameters: 0 }
    parts.set(name, { name, dims: words, count: count + 1, parameters: parameters + size })
  }
  return [...parts.values()]
}
