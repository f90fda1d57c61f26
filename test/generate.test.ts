/** Generation: every family from its own graph, with caches and without, on every kernel the same tokens. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after } from 'node:test'
import { normal } from '../src/base/index.js'
import { compileEvaluation, serialJob } from '../src/compile/index.js'
import { byteTokenizer } from '../src/data/index.js'
import { boot, fastKernels, Pool } from '../src/engine/index.js'
import {
  createDecoder,
  type Decoder,
  type GenerateOptions,
  generate,
  sampled,
  textStream,
} from '../src/generate/index.js'
import { adaptersOf, Job, type JobInput } from '../src/plan/index.js'
import { expertModels } from './expert-models.js'
import { family, test } from './families.js'
import { models } from './jobs.js'

const pool = new Pool()
after(() => pool.close())

const { mlp: _, ...dense } = models
const wide = { vocab: 61, layers: 2 }
const families: Readonly<Record<string, JobInput['model']>> = Object.fromEntries(
  Object.entries({ ...dense, ...prefixed(expertModels) }).map(([name, model]) => [name, { ...model, ...wide }]),
)

function prefixed<T>(record: Readonly<Record<string, T>>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [`experts: ${name}`, value]))
}

const jobOf = (model: JobInput['model'], seq = 12, training = {}): Job =>
  Job.parse({ model, training: { seq, globalBatch: 1, ...training }, plan: {} })

/** Weights that make up their mind: large, and of every parameter. */
const weight = (name: string, index: number, seed = 1): number =>
  (name.endsWith('.weight') ? 1 : 0) + 0.4 * normal({ seed, name })(index)

const decoderOf = (job: Job, kernels: Parameters<typeof createDecoder>[2]['kernels'], threads?: number) =>
  createDecoder(
    job.model,
    (name, values) => {
      for (let i = 0; i < values.length; i++) values[i] = weight(name, i)
    },
    { context: job.training.seq, kernels, threads, pool, adapters: adaptersOf(job) },
  )

async function idsOf(decoder: Decoder, options: GenerateOptions, prompt = [3, 1, 4]): Promise<number[]> {
  decoder.rewind(0)
  const ids: number[] = []
  for await (const id of generate(decoder, prompt, options)) ids.push(id)
  return ids
}

const [greedy, drawn] = [{ tokens: 8 }, { tokens: 8, temperature: 0.9, topK: 20, topP: 0.95, seed: 7 }]
/** Longer than the context of 12. */
const long = { tokens: 20, temperature: 1, seed: 3 }

const test3 = family('generation: KV cache', 5)
for (const [name, model] of Object.entries(families))
  test3(`${name}: with a cache and without, on every kernel, the same tokens`, async () => {
    const job = jobOf(model)
    const reference = await decoderOf(job, 'reference')
    const wanted: number[][] = []
    for (const options of [greedy, drawn]) wanted.push(await idsOf(reference, options))
    ok(new Set(wanted.flat()).size > 3, `not always the same: ${wanted}`)
    deepEqual(await idsOf(reference, { ...greedy, cache: false }), wanted[0])
    for (const kernels of fastKernels()) {
      const decoder = await decoderOf(job, kernels)
      for (const [i, options] of [greedy, drawn].entries())
        for (const cache of [true, false])
          deepEqual(await idsOf(decoder, { ...options, cache }), wanted[i], `${kernels}, cache ${cache}`)
      deepEqual(await idsOf(decoder, long), await idsOf(decoder, { ...long, cache: false }))
      await decoder.stop()
    }
  })

const test4 = family('generation: likelihood', 9)
for (const name of Object.keys(families).filter(name => name !== 'experts: gshard')) // it drops tokens in training
  test4(`${name}: tokens fed one by one are as likely as the evaluation says`, async () => {
    const job = jobOf(families[name], 16)
    const program = compileEvaluation(serialJob(job))
    const machine = boot(program, { seed: 1 })
    for (const { name: param, dims } of program.params)
      machine.setParameter(
        param,
        Float64Array.from({ length: dims.reduce((n, { size }) => n * size, 1) }, (_, i) => weight(param, i)),
      )
    const ids = Array.from({ length: 17 }, (_, i) => (i * 37 + 5) % 61)
    const inputs = (input: string) => (input === 'tokens' ? ids.slice(0, 16) : ids.slice(1))
    const { loss } = machine.step({ inputs, lr: Number.NaN, step: 0 })
    const decoder = await decoderOf(job, 'reference')
    let sum = 0
    for (let i = 0; i < 16; i++) {
      const logits = await decoder.feed([ids[i]])
      const total = [...logits].reduce((all, logit) => all + Math.exp(logit), 0)
      sum += Math.log(total) - logits[ids[i + 1]]
    }
    ok(Math.abs(sum / 16 - loss) < 1e-12 * loss, `${sum / 16} against ${loss}`)
  })

test('adapters are part of the model', async () => {
  const [job, without] = [
    jobOf(models.llama, 12, { lora: { rank: 2, alpha: 4, targets: ['q', 'down'] } }),
    jobOf(models.llama),
  ]
  const [reference, fast, plain] = [
    await decoderOf(job, 'reference'),
    await decoderOf(job, 'auto'),
    await decoderOf(without, 'reference'),
  ]
  const [wanted, seen, other] = await Promise.all([reference, fast, plain].map(decoder => decoder.feed([1, 2, 3])))
  ok(
    wanted.every((logit, i) => Math.abs(logit - seen[i]) < 1e-4),
    `${wanted} against ${seen}`,
  )
  ok(wanted.some((logit, i) => Math.abs(logit - other[i]) > 0.1))
  await fast.stop()
})

test('several threads, and prompts longer than a pass, make no difference', async () => {
  const model = { family: 'llama', layers: 2, embed: 96, heads: 4, kvHeads: 2, ffn: 80, vocab: 61 } as const
  const job = jobOf(model, 200)
  const prompt = Array.from({ length: 150 }, (_, i) => (i * 31 + 7) % 61)
  const [one, three] = [await decoderOf(job, 'auto', 1), await decoderOf(job, 'auto', 3)]
  const wanted = await idsOf(one, greedy, prompt)
  deepEqual(await idsOf(three, greedy, prompt), wanted)
  deepEqual(await idsOf(three, { ...greedy, cache: false }, prompt), wanted)
  await one.stop()
  await three.stop()
})

test('the likeliest, the k likeliest, and those that make up a share', () => {
  const logits = Float64Array.from([0.1, 0.4, 0.2, 0.3], Math.log)
  const all = (options: object) => [0, 0.25, 0.5, 0.75, 0.999].map(chance => sampled(logits, options, chance))
  deepEqual(all({}), [1, 1, 1, 1, 1])
  deepEqual(all({ temperature: 1 }), [0, 1, 2, 3, 3])
  deepEqual(all({ temperature: 1, topK: 2 }), [1, 1, 1, 3, 3])
  deepEqual(all({ temperature: 1, topP: 0.69 }), [1, 1, 1, 3, 3])
  deepEqual(all({ temperature: 1, topP: 0.71 }), [1, 1, 3, 3, 2])
  deepEqual(all({ temperature: 0.01, topK: 3 }), [1, 1, 1, 1, 1])
})

test('a letter of several tokens is given when it is whole', () => {
  const stream = textStream(byteTokenizer)
  deepEqual(
    [...new TextEncoder().encode('né\u20ac')].map(byte => stream.add(byte)),
    ['n', '', 'é', '', '', '\u20ac'],
  )
  deepEqual([stream.add(0xc3), stream.end()], ['', '\ufffd'])
})

test('a token after a prompt that fills the context', async () => {
  const decoder = await decoderOf(jobOf(models.gpt, 8), 'reference')
  equal((await idsOf(decoder, { tokens: 3 }, [1, 2, 3, 4, 5, 6, 7, 1])).length, 3)
})
