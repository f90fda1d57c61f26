/** Classes of NeMo 2 that stand for a model, by the sizes they have there. */
import { type ModelInput, presets } from '../../model/index.js'

const longer = { ropeScaling: { kind: 'llama3', factor: 8, original: 8192 } } as const

const classes: Readonly<Record<string, Extract<ModelInput, { family: 'llama' | 'gpt' }>>> = {
  Llama2Config7B: presets['llama2-7b'],
  Llama2Config13B: presets['llama2-13b'],
  Llama2Config70B: presets['llama2-70b'],
  Llama3Config8B: presets['llama3-8b'],
  Llama3Config70B: presets['llama3-70b'],
  Llama31Config8B: { ...presets['llama3-8b'], ...longer, positions: 131072 },
  Llama31Config70B: { ...presets['llama3-70b'], ...longer, positions: 131072 },
  Llama31Config405B: { ...presets['llama3-405b'], ...longer },
  MixtralConfig8x7B: presets['mixtral-8x7b'],
  MixtralConfig8x22B: presets['mixtral-8x22b'],
  GPTConfig175B: presets['gpt3-175b'],
}

/** Flags of Megatron that say the same; undefined: the class is not known. */
export function termsOfClass(name: string): ReadonlyMap<string, unknown> | undefined {
  const model = classes[name.replace(/^.*\./, '')]
  if (!model) return undefined
  const shared = [
    ['num-layers', model.layers],
    ['hidden-size', model.embed],
    ['num-attention-heads', model.heads],
    ['ffn-hidden-size', model.ffn],
    ['padded-vocab-size', model.vocab],
    ['max-position-embeddings', model.positions],
    ['hidden-dropout', 0],
    ['attention-dropout', 0],
  ] as const
  return new Map<string, unknown>(model.family === 'gpt' ? shared : [...shared, ...llamaTerms(model)])
}

function llamaTerms({ kvHeads, heads, ropeTheta, ropeScaling, moe }: Extract<ModelInput, { family: 'llama' }>) {
  return [
    ['group-query-attention', true],
    ['num-query-groups', kvHeads ?? heads],
    ['swiglu', true],
    ['normalization', 'RMSNorm'],
    ['position-embedding-type', 'rope'],
    ['rotary-base', ropeTheta ?? 10000],
    ['norm-epsilon', 1e-5],
    ['disable-bias-linear', true],
    ['untie-embeddings-and-output-weights', true],
    ...(ropeScaling ? ([['use-rope-scaling', true]] as const) : []),
    ...(moe
      ? ([
          ['num-experts', moe.experts],
          ['moe-router-topk', moe.topK],
        ] as const)
      : []),
  ] as const
}
