/** What models amount to, against published numbers, and as `lockstep models` says it. */
import { equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { ModelConfig, parametersOf, partsOfModel, presetNames, presets, sizesOf } from '../src/model/index.js'
import { lockstep } from './memory-io.js'

const of = (name: keyof typeof presets, seq?: number) => sizesOf(ModelConfig.parse(presets[name]), seq)

test('keys and values of a token in bf16: 2 x layers x kvHeads x headDim, the latent and a key of DeepSeek-V3', () => {
  equal(of('llama3-8b').cache, 2 * 2 * 32 * 8 * 128)
  equal(of('llama3-405b').cache, 516_096) // 516.096 KB, table 1 of "Insights into DeepSeek-V3" (arXiv 2505.09343)
  equal(of('deepseek-v3').cache, 70_272) // 70.272 KB there
})

test('FLOPs of training on a token at 4096, with the causal half of attention, within 3 % of table 2 there', () => {
  const causal = ({ active, flops }: ReturnType<typeof of>) => (6 * active + flops.training) / 2
  ok(Math.abs(causal(of('llama3-405b', 4096)) / 2448e9 - 1) < 0.03)
  ok(Math.abs(causal(of('deepseek-v3', 4096)) / 250e9 - 1) < 0.03)
})

test('the parts of every preset make up its parameters', () => {
  for (const name of presetNames) {
    const model = ModelConfig.parse(presets[name])
    const parts = partsOfModel(model, 64).reduce((n, part) => n + part.parameters, 0)
    equal(parts, parametersOf(model, 64), name)
  }
})

test('the list, one in detail, as JSON, a config.json, and one that is none', async () => {
  const { out } = await lockstep(['models'])
  match(out, /llama3-405b +405\.85 B +\d.*T +755\.96 GiB +131072 +504\.00 KiB +126 +16384/)
  match(out, /mixtral-8x7b +46\.70 B +12\.88 B/)
  const models = JSON.parse((await lockstep(['models', '--json'])).out)
  equal(models['llama3-8b'].parameters, 8030261248)
  const detail = (await lockstep(['models', 'llama3-8b'])).out
  match(detail, /8,030,261,248[\s\S]*layers\.\*\.mlp\.up +32 +1\.88 B +23\.4 % +embed 4096 x ffn 14336/)
  const config = JSON.stringify({
    model_type: 'gpt2',
    n_embd: 8,
    n_layer: 1,
    n_head: 2,
    vocab_size: 16,
    n_positions: 4,
  })
  equal(JSON.parse((await lockstep(['models', 'config.json', '--json'], { 'config.json': config })).out).seq, 4)
  const unknown = await lockstep(['models', 'lama3-8b'])
  equal(unknown.code, 1)
  match(unknown.err, /did you mean `llama3-8b`/)
  match((await lockstep(['presets'])).err, /^note: `lockstep presets` is now `lockstep models`\n/)
})
