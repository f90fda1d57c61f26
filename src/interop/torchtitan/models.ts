/** Sizes of torchtitan's models, by name and flavor (torchtitan v0.2.2). */
import { type ModelInput, presets } from '../../model/index.js'

const llama3 = { family: 'llama', kvHeads: 8, vocab: 128256, ropeTheta: 500000, eps: 1e-5, tied: false } as const
const qwen3 = {
  ...({
    family: 'llama',
    kvHeads: 8,
    headDim: 128,
    vocab: 151936,
    ropeTheta: 1000000,
    eps: 1e-6,
    qkNorm: true,
  } as const),
}
const tied = { tied: true } as const
const untied = { tied: false } as const

const sizes: Readonly<Record<string, Readonly<Record<string, ModelInput>>>> = {
  llama3: {
    debugmodel: { ...llama3, layers: 6, embed: 256, heads: 16, kvHeads: 16, ffn: 768, vocab: 2048 },
    '8b': { ...llama3, layers: 32, embed: 4096, heads: 32, ffn: 14336 },
    '70b': { ...llama3, layers: 80, embed: 8192, heads: 64, ffn: 28672 },
    '405b': { ...llama3, layers: 126, embed: 16384, heads: 128, ffn: 53248 },
  },
  qwen3: {
    '0.6b': { ...qwen3, ...tied, layers: 28, embed: 1024, heads: 16, ffn: 3072 },
    '1.7b': { ...qwen3, ...tied, layers: 28, embed: 2048, heads: 16, ffn: 6144 },
    '4b': { ...qwen3, ...tied, layers: 36, embed: 2560, heads: 32, ffn: 9728 },
    '8b': { ...qwen3, ...untied, layers: 36, embed: 4096, heads: 32, ffn: 12288 },
    '14b': { ...qwen3, ...untied, layers: 40, embed: 5120, heads: 40, ffn: 17408 },
    '32b': { ...qwen3, ...untied, layers: 64, embed: 5120, heads: 64, ffn: 25600 },
    '30b-a3b': presets['qwen3-30b-a3b'],
    '235b-a22b': presets['qwen3-235b-a22b'],
  },
  deepseek_v3: {
    '16b': {
      ...{ family: 'llama', layers: 27, embed: 2048, heads: 16, ffn: 10944, vocab: 102400, eps: 1e-6 },
      mla: { kvLoraRank: 512, qkRopeHeadDim: 64, qkNopeHeadDim: 128, vHeadDim: 128 },
      moe: { experts: 64, topK: 6, ffn: 1408, shared: 2816, dense: 1, normalize: false, bias: 0.001 },
    },
    '671b': presets['deepseek-v3'],
  },
}

export const modelNames: readonly string[] = Object.keys(sizes)
export const flavorsOf = (name: string): readonly string[] => Object.keys(sizes[name] ?? {})
export const modelOf = (name: string, flavor: string): ModelInput | undefined => sizes[name]?.[flavor.toLowerCase()]

/** The name and flavor of a model, where torchtitan has it. */
export function flavorOf(isSame: (model: ModelInput) => boolean): readonly [name: string, flavor: string] | undefined {
  for (const [name, flavors] of Object.entries(sizes))
    for (const [flavor, model] of Object.entries(flavors))
      if (isSame(model)) return [name, shown[flavor] ?? flavor.toUpperCase()]
  return undefined
}
const shown: Readonly<Record<string, string>> = { debugmodel: 'debugmodel' }
