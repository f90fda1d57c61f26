/** Rotary positions that are scaled: frequencies as transformers gives them, and how a config.json says them. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type RopeScaling, rotationOf, scoreGrowthOf } from '../src/base/index.js'
import { printInstr } from '../src/ir/index.js'
import { fromHuggingFace, type LlamaConfig } from '../src/model/index.js'
import { check } from '../src/plan/index.js'
import { jobOf } from './jobs.js'

const llama31: RopeScaling = { kind: 'llama3', factor: 8, low: 1, high: 4, original: 8192 }
const deepseek: RopeScaling = { kind: 'yarn', factor: 40, original: 4096, fast: 32, slow: 1, scale: 1, scaleAll: 1 }
const qwen: RopeScaling = { kind: 'yarn', factor: 4, original: 32768, fast: 32, slow: 1, scale: 1, scaleAll: 0 }

/** Pairs and their frequencies by the formulas of transformers' modeling_rope_utils.py, in f64. */
const published: readonly [string, RopeScaling, width: number, theta: number, Record<number, number>][] = [
  [
    ...(['Llama 3.1', llama31, 128, 500_000] as const),
    { 0: 1, 16: 0.03760603093086393, 30: 0.001371893567761138, 32: 0.0005248461609929547, 36: 7.78465527393245e-5 },
  ],
  [
    ...(['DeepSeek-V3', deepseek, 64, 10_000] as const),
    { 0: 1, 8: 0.1, 14: 0.01244795587027246, 16: 0.0055, 20: 0.0007905694150420945, 31: 3.33380358040831e-6 },
  ],
  [
    ...(['Qwen with YaRN', qwen, 128, 1e6] as const),
    {
      0: 1,
      30: 0.0010643609812470017,
      32: 0.0006029411764705882,
      36: 0.00017984115587395423,
      63: 3.102344401879299e-7,
    },
  ],
  ['linear', { kind: 'linear', factor: 4 }, 8, 10_000, { 0: 0.25, 1: 0.025, 3: 0.00025 }],
]

for (const [name, scaling, width, theta, expected] of published)
  test(`${name}: pairs turn as fast as in transformers`, () => {
    const { frequencies } = rotationOf(width, theta, scaling)
    equal(frequencies.length, width / 2)
    for (const [pair, frequency] of Object.entries(expected))
      ok(Math.abs(frequencies[Number(pair)] / frequency - 1) < 1e-13, `pair ${pair}: ${frequencies[Number(pair)]}`)
  })

test('what YaRN lets grow: queries and keys, or the scores of latent attention', () => {
  const growth = 1.3688879454113936
  equal(rotationOf(64, 1e4, deepseek).growth, 1)
  ok(Math.abs(scoreGrowthOf(deepseek) - growth ** 2) < 1e-15)
  ok(Math.abs(rotationOf(128, 1e6, qwen).growth - 1.138629436111989) < 1e-15)
  equal(scoreGrowthOf(qwen), 1)
  equal(scoreGrowthOf(undefined), 1)
})

test('the text form keeps the scaling', () => {
  const line = (scaling?: RopeScaling) =>
    printInstr({ kind: 'rope', theta: 1e4, inverse: false, ...(scaling && { scaling }), ins: ['x'], outs: ['y'] })
  equal(line(), '%y = rope %x theta=1e+4 inverse=false')
  equal(line(llama31), '%y = rope %x theta=1e+4 inverse=false scaling=llama3:8:1:4:8192')
  equal(line(deepseek), '%y = rope %x theta=1e+4 inverse=false scaling=yarn:40:4096:32:1:1:1')
})

const config = {
  ...{ model_type: 'llama', hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, intermediate_size: 96 },
  ...{ vocab_size: 128, max_position_embeddings: 4096, rope_theta: 5e5 },
}
const read = (raw: object) => {
  const { config: found, problems } = fromHuggingFace({ ...config, ...raw })
  return {
    scaling: (found as LlamaConfig | undefined)?.ropeScaling,
    says: problems.map(p => `${p.severity} ${p.path}`),
  }
}

test('rope_scaling and rope_parameters of a config.json', () => {
  const numbers = { factor: 8, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 }
  const five = { rope_parameters: { rope_type: 'llama3', ...numbers, rope_theta: 5e5 } }
  deepEqual(read({ rope_scaling: { rope_type: 'llama3', ...numbers } }), { scaling: llama31, says: [] })
  deepEqual(read({ ...five, rope_theta: undefined }), { scaling: llama31, says: [] })
  deepEqual(read({ rope_scaling: { type: 'linear', factor: 2 } }), { scaling: { kind: 'linear', factor: 2 }, says: [] })
  deepEqual(read({ rope_parameters: { rope_type: 'default', rope_theta: 1e4 } }), { scaling: undefined, says: [] })
  deepEqual(read({ rope_scaling: { type: 'yarn', factor: 4 } }).scaling, { ...qwen, original: 4096 })
  const mscales = { mscale: 1, mscale_all_dim: 1, beta_fast: 32, beta_slow: 1 }
  deepEqual(
    read({ rope_scaling: { type: 'yarn', factor: 40, original_max_position_embeddings: 4096, ...mscales } }).scaling,
    deepseek,
  )
})

test('queries and keys grow by what a config.json asks for, however it says it', () => {
  const growth = (numbers: object) =>
    rotationOf(64, 1e4, read({ rope_scaling: { rope_type: 'yarn', factor: 4, ...numbers } }).scaling).growth
  const near = (a: number, b: number) => ok(Math.abs(a - b) < 1e-14, `${a} and ${b}`)
  const usual = 0.1 * Math.log(4) + 1
  near(growth({}), usual)
  near(growth({ mscale: 0.7 }), usual) // without the other it is not looked at
  near(growth({ mscale_all_dim: 0.7 }), usual)
  near(growth({ mscale: 0.5, mscale_all_dim: 1 }), (0.05 * Math.log(4) + 1) / usual)
  near(growth({ attention_factor: 1.7 }), 1.7)
  near(growth({ attention_factor: 1.7, mscale_all_dim: 1 }), 1.7)
})

test('scalings that are not known or not complete', () => {
  deepEqual(read({ rope_scaling: { rope_type: 'longrope' } }), { scaling: undefined, says: ['warning rope_scaling'] })
  deepEqual(read({ rope_scaling: { rope_type: 'llama3' } }).says, ['error rope_scaling.factor'])
  deepEqual(read({ rope_parameters: { rope_type: 'linear' } }).says, ['error rope_parameters.factor'])
  deepEqual(read({ rope_scaling: { type: 'yarn', factor: 4, truncate: false } }).says, [
    'warning rope_scaling.truncate',
  ])
  deepEqual(read({ partial_rotary_factor: 0.5 }).says, ['warning partial_rotary_factor'])
})

test('scalings that contradict themselves are problems', () => {
  const job = jobOf('llama', {})
  const says = (ropeScaling: RopeScaling) =>
    check({ ...job, model: { ...(job.model as LlamaConfig), ropeScaling } }).map(p => `${p.path} ${p.message}`)
  deepEqual(says({ ...llama31, low: 4 } as RopeScaling), ['model.ropeScaling.low low 4 must be below high 4'])
  deepEqual(says({ ...qwen, slow: 40 } as RopeScaling), ['model.ropeScaling.slow slow 40 must not be above fast 32'])
})
