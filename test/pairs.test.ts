/** Prompts and answers: what is learned of them, and that uneven masks change no loss under any plan. */
import { deepEqual, equal, ok, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { memoryFiles } from '../src/base/memory-files.js'
import { byteTokenizer, packedPairs, readPairs, type Tokenizer, windows } from '../src/data/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import { lossesOf, openData, startSession } from '../src/train/index.js'

const line = (value: unknown) => `${JSON.stringify(value)}\n`

/** Letters, and a full stop that ends a text. */
const letters: Tokenizer = { ...byteTokenizer, vocab: 256, end: '.'.charCodeAt(0) }

/** Sequences as 'tokens > labels': what is no target is a dot below. */
function drawn(text: string, seq: number, tokenizer = letters): string[] {
  const { ids } = packedPairs(readPairs(text), tokenizer, seq)
  const samples = windows(ids, seq)
  return Array.from({ length: samples.count }, (_, sample) => {
    const [tokens, labels] = ['tokens', 'labels'].map(input => {
      const into = new Int32Array(seq)
      samples.write(input, sample, into)
      return String.fromCharCode(...Array.from(into, id => (id < 0 ? 45 : id)))
    })
    return `${tokens} > ${labels}`
  })
}

test('answers and their end are learned, prompts are not', () =>
  deepEqual(drawn(line({ prompt: 'ab', answer: 'cd' }), 6), ['abcd.. > -cd.--']))

test('a pair that does not fit into the rest of a sequence begins the next', () =>
  deepEqual(drawn(line({ prompt: 'a', answer: 'b' }) + line({ instruction: 'cd', output: 'efg' }), 6), [
    'ab.... > b.----',
    'cdefg. > -efg.-',
  ]))

test('a pair that is longer than a sequence loses its end', () =>
  deepEqual(drawn(line({ question: 'abc', answer: 'defgh' }), 6), ['abcdef > --def-']))

test('of a chat what the assistant says is learned', () => {
  const messages = [
    { role: 'u', content: 'x' },
    { role: 'assistant', content: 'yes' },
  ]
  deepEqual(drawn(line({ messages }), 22), ['u: x\nassistant: yes\n.. > ---------------yes\n.--'])
})

test('a line that is no pair is named', () => {
  throws(() => readPairs('{"prompt": "a", "answer": "b"}\n{"prompt": 1, "answer": "b"}'), /line 2 has no text `prompt`/)
  throws(() => readPairs('{"text": "a"}'), /line 1 has no prompt and answer, instruction and output, or messages: text/)
  throws(() => readPairs('[1]'), /line 1 is not a JSON object/)
})

const source = Array.from({ length: 40 }, (_, i) =>
  line({ prompt: `${i} + ${i % 7} = `, answer: `${i + (i % 7)}` }),
).join('')
const model = { family: 'llama', layers: 2, embed: 16, heads: 4, kvHeads: 2, ffn: 24, vocab: 256 } as const

async function losses(plan: JobInput['plan']): Promise<number[]> {
  const data = { source: 'pairs.jsonl', pairs: true, evalFraction: 0, documents: { eod: 61 } }
  const job = Job.parse({ model, training: { seq: 16, globalBatch: 8 }, plan, data })
  const files = memoryFiles()
  files.write('pairs.jsonl', source)
  const { dataset } = await openData(job, files)
  const session = await startSession(job, dataset, { kernels: 'reference' })
  const all = await lossesOf(session, 2)
  await session.stop()
  return all
}

test('uneven masks give the loss of one rank under every plan', async () => {
  const one = await losses({})
  for (const plan of [
    { dp: 2, microbatches: 2 },
    { cp: 2, dp: 2 },
    { pp: 2, microbatches: 4, tp: 2 },
    { dp: 4, zero: 3 },
  ] as const) {
    const all = await losses(plan)
    ok(
      all.every((loss, i) => Math.abs(loss - one[i]) < 1e-12),
      `${JSON.stringify(plan)}: ${all}, not ${one}`,
    )
  }
  equal(one.length, 2)
})
