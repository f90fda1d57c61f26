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

/** arXiv 2401.04088, and the configs published with the weights. */
const mixtral = { family: 'llama', kvHeads: 8, ropeTheta: 1e6 } as const
const ofMixtral = { experts: 8, topK: 2, loss: { microbatch: 0.02 } } as const

/** arXiv 2505.09388. */
const qwen3 = {
  family: 'llama',
  kvHeads: 4,
  headDim: 128,
  vocab: 151936,
  qkNorm: true,
  ropeTheta: 1e6,
  eps: 1e-6,
} as const
const ofQwen3 = { experts: 128, topK: 8, loss: { microbatch: 0.001 } } as const

/** arXiv 2412.19437; Kimi K2 (arXiv 2507.20534) is a relative. Their layers that predict further tokens are left out. */
const deepseek = {
  family: 'llama',
  layers: 61,
  embed: 7168,
  ffn: 18432,
  eps: 1e-6,
  mla: { qLoraRank: 1536, kvLoraRank: 512, qkRopeHeadDim: 64, qkNopeHeadDim: 128, vHeadDim: 128 },
} as const
const ofDeepseek = { topK: 8, ffn: 2048, scores: 'sigmoid', shared: 2048, bias: 0.001 } as const
const yarn = { kind: 'yarn', original: 4096, scale: 1, scaleAll: 1 } as const

/** The model presets that a job can name, such as `llama3-8b`. */
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

  'mixtral-8x7b': {
    ...{ ...mixtral, layers: 32, embed: 4096, heads: 32, ffn: 14336, vocab: 32000, positions: 32768 },
    moe: { ...ofMixtral, ffn: 14336 },
  },
  'mixtral-8x22b': {
    ...{ ...mixtral, layers: 56, embed: 6144, heads: 48, ffn: 16384, vocab: 32768, positions: 65536 },
    moe: { ...ofMixtral, ffn: 16384 },
  },
  'qwen3-30b-a3b': {
    ...{ ...qwen3, layers: 48, embed: 2048, heads: 32, ffn: 6144, positions: 40960 },
    moe: { ...ofQwen3, ffn: 768 },
  },
  'qwen3-235b-a22b': {
    ...{ ...qwen3, layers: 94, embed: 4096, heads: 64, ffn: 12288, positions: 40960 },
    moe: { ...ofQwen3, ffn: 1536 },
  },
  'deepseek-v3': {
    ...{ ...deepseek, heads: 128, vocab: 129280, positions: 163840 },
    ropeScaling: { ...yarn, factor: 40, fast: 32, slow: 1 },
    moe: { ...ofDeepseek, experts: 256, scale: 2.5, groups: 8, topKGroups: 4, dense: 3, loss: { sequence: 0.0001 } },
  },
  'kimi-k2': {
    ...{ ...deepseek, heads: 64, vocab: 163840, positions: 131072, ropeTheta: 50000 },
    ropeScaling: { ...yarn, factor: 32, fast: 1, slow: 1 },
    moe: { ...ofDeepseek, experts: 384, scale: 2.827, dense: 1, loss: { sequence: 0.001 } },
  },

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
  'mixtral-tiny': {
    ...{ family: 'llama', layers: 4, embed: 16, heads: 4, kvHeads: 2, ffn: 32, vocab: 32 },
    moe: { experts: 4, topK: 2, ffn: 16, loss: { microbatch: 0.01, z: 0.001 } },
  },
  'deepseek-tiny': {
    ...{ family: 'llama', layers: 4, embed: 16, heads: 4, ffn: 32, vocab: 32 },
    mla: { qLoraRank: 8, kvLoraRank: 8, qkRopeHeadDim: 2, qkNopeHeadDim: 4, vHeadDim: 4 },
    moe: {
      ...{ experts: 8, topK: 2, ffn: 8, scores: 'sigmoid', scale: 2.5, groups: 4, topKGroups: 2, shared: 8 },
      ...{ bias: 0.001, dense: 1, loss: { sequence: 0.0001 } },
    },
  },
  'llama-tiny-tied': { family: 'llama', layers: 4, embed: 16, heads: 4, kvHeads: 2, ffn: 32, vocab: 32, tied: true },
} as const satisfies Readonly<Record<string, ModelInput>>

export type PresetName = keyof typeof presets
export const presetNames = Object.keys(presets) as PresetName[] // the keys of a constant are its names

export const isPreset = (name: string): name is PresetName => Object.hasOwn(presets, name)
