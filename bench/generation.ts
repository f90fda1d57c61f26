/**
 * Text made token by token against transformers' `generate`, greedily, from one set of weights: a folder that we write and both open. One
 * thread each. The ids must be the same, and those that are made without a cache.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { normal } from '../src/base/index.js'
import { type Decoder, generate, openDecoder, openTrained } from '../src/generate/index.js'
import { buildModel, ModelConfig, type ModelInput } from '../src/model/index.js'
import { nodeFiles } from '../src/node/index.js'
import { exportWeights, type Weights } from '../src/weights/index.js'
import type { Child } from './child.js'
import type { Options, Say } from './main.js'
import { transformers, unlessMissing } from './peers.js'
import { type Contender, type Result, run } from './race.js'
import { showResults } from './report.js'

const context = 256
const [asked, made] = [32, 64]

const models = {
  'GPT 10.9M': { family: 'gpt', layers: 6, embed: 384, heads: 6, vocab: 256 },
  'Llama 99M': { family: 'llama', layers: 12, embed: 768, heads: 12, ffn: 2048, vocab: 9000 },
} as const satisfies Readonly<Record<string, ModelInput>>

const prompt = Array.from({ length: asked }, (_, i) => (7 * i + 3) % 251)

/** Numbers that make up their mind. */
function drawn(model: ModelConfig): Weights {
  const { params } = buildModel(model, { batch: 1, seq: context })
  const dims = new Map(params.map(param => [`param.${param.name}`, param.dims]))
  return {
    tensors: dims,
    tensor(name) {
      const values = new Float64Array(dims.get(name)!.reduce((n, { size }) => n * size, 1))
      const [next, mean] = [normal({ seed: 1, name }), name.endsWith('.weight') ? 1 : 0]
      for (let i = 0; i < values.length; i++) values[i] = mean + 0.05 * next(i)
      return values
    },
  }
}

async function idsOf(decoder: Decoder, cache: boolean): Promise<number[]> {
  decoder.rewind(0)
  const ids: number[] = []
  for await (const id of generate(decoder, prompt, { tokens: made, cache })) ids.push(id)
  return ids
}

const ours = (decoder: Decoder): Contender => ({
  name: 'lockstep',
  answer: () => idsOf(decoder, true),
  async time() {
    const begun = performance.now()
    await idsOf(decoder, true)
    return (performance.now() - begun) / 1000
  },
})

const theirs = (child: Child): Contender => ({
  name: 'transformers',
  answer: () => child.askNumbers('ids', made, ...prompt),
  time: async () => (await child.askNumbers('time', made, ...prompt))[0],
})

async function raced(title: string, input: ModelInput, say: Say, rounds: number): Promise<Result> {
  const [files, folder] = [nodeFiles(), mkdtempSync(join(tmpdir(), 'lockstep-race-'))]
  const model = ModelConfig.parse(input)
  const out = join(folder, 'model')
  exportWeights(drawn(model), { model, seq: context }, { files, out })
  const decoder = await openDecoder(openTrained(out, files), { context, threads: 1 })
  const peer = await unlessMissing(() => transformers(out), say)
  try {
    const contenders = [ours(decoder), ...(peer ? [theirs(peer)] : [])]
    const expected = await idsOf(decoder, false)
    return await run({ title, expected, tolerance: 0, contenders }, { rounds, pause: 50 })
  } finally {
    await Promise.all([decoder.stop(), peer?.stop()])
    rmSync(folder, { recursive: true })
  }
}

export async function generation(say: Say, { rounds = 9, only = '' }: Options = {}): Promise<Result[]> {
  const results: Result[] = []
  for (const [name, model] of Object.entries(models)) {
    const title = `${name}, ${made} tokens after ${asked}, f32, one thread`
    if (title.includes(only)) results.push(await raced(title, model, say, rounds))
  }
  return results
}

export const showGeneration = (results: readonly Result[]): string =>
  showResults(results, [{ name: 'lockstep', peer: 'transformers' }])
