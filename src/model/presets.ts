/**
 * Models by name. Sizes are those of the papers and of the published checkpoints; the tests hold their parameter
 * counts against the published ones.
 */
import type { ModelInput } from './config.js'

const gpt = (layers: number, embed: number, heads: number, positions = 1024, vocab = 50257) =>
  ({ family: 'gpt', layers, embed, heads, vocab, positions }) as const

/** Table 1 of "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM" (SC21). */
const megatron = (embed: number, heads: number, layers: number) => gpt(layers, embed, heads, 2048, 51200)

const llama2 = { family: 'llama', vocab: 32000, positions: 4096 } as const
const llama3 = { family: 'llama', vocab: 128256, ropeTheta: 500_000, kvHeads: 8, positions: 8192 } as const

export const presets = {
  gpt2: gpt(12, 768, 12),
  'gpt2-medium': gpt(24, 1024, 16),
  'gpt2-large': gpt(36, 1280, 20),
  'gpt2-xl': gpt(48, 1600, 25),
  'gpt3-175b': gpt(96, 12288, 96, 2048),

  'llama2-7b': { ...llama2, layers: 32, embed: 4096, heads: 32, ffn: 11008 },
  'llama2-13b': { ...llama2, layers: 40, embed: 5120, heads: 40, ffn: 13824 },
  'llama2-70b': { ...llama2, layers: 80, embed: 8192, heads: 64, kvHeads: 8, ffn: 28672 },
  'llama3-8b': { ...llama3, layers: 32, embed: 4096, heads: 32, ffn: 14336 },
  'llama3-70b': { ...llama3, layers: 80, embed: 8192, heads: 64, ffn: 28672 },
  'llama3-405b': { ...llama3, layers: 126, embed: 16384, heads: 128, ffn: 53248, positions: 131072 },

  'megatron-1.7b': megatron(2304, 24, 24),
  'megatron-3.6b': megatron(3072, 32, 30),
  'megatron-7.5b': megatron(4096, 32, 36),
  'megatron-18b': megatron(6144, 48, 40),
  'megatron-39b': megatron(8192, 64, 48),
  'megatron-76b': megatron(10240, 80, 60),
  'megatron-145b': megatron(12288, 96, 80),
  'megatron-310b': megatron(16384, 128, 96),
  'megatron-530b': megatron(20480, 128, 105),
  'megatron-1t': megatron(25600, 160, 128),

  'mlp-tiny': { family: 'mlp', layers: 4, embed: 8, ffn: 16 },
  'gpt-tiny': { family: 'gpt', layers: 4, embed: 16, heads: 4, vocab: 32 },
  'gpt-tiny-untied': { family: 'gpt', layers: 4, embed: 16, heads: 4, vocab: 32, tied: false },
  'gpt-tiny-dropout': { family: 'gpt', layers: 4, embed: 16, heads: 4, vocab: 32, dropout: 0.1 },
  'llama-tiny': { family: 'llama', layers: 4, embed: 16, heads: 4, kvHeads: 2, ffn: 32, vocab: 32 },
  'llama-tiny-tied': { family: 'llama', layers: 4, embed: 16, heads: 4, kvHeads: 2, ffn: 32, vocab: 32, tied: true },
} as const satisfies Readonly<Record<string, ModelInput>>

export type PresetName = keyof typeof presets
export const presetNames = Object.keys(presets) as PresetName[] // the keys of a constant are its names

export const isPreset = (name: string): name is PresetName => Object.hasOwn(presets, name)
