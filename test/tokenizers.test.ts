/** Ids of tokenizer.json files are those that Hugging Face's own package gives: without and with special tokens, and decoded. */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { readTokenizer } from '../src/data/index.js'
import { fixtureFolders, readFixture } from './fixtures.js'

interface Expected {
  readonly vocab: number
  readonly cases: readonly {
    readonly text: string
    readonly ids: readonly number[]
    readonly withSpecial: readonly number[]
    readonly decoded: string
  }[]
}

for (const name of fixtureFolders('tokenizers'))
  test(`${name} gives the ids of the package`, async () => {
    const expected: Expected = JSON.parse(readFixture(`tokenizers/${name}/expected.json`))
    const tokenizer = await readTokenizer(readFixture(`tokenizers/${name}/tokenizer.json`), name)
    equal(tokenizer.vocab, expected.vocab)
    for (const { text, ids, withSpecial, decoded } of expected.cases) {
      const bytes = new TextEncoder().encode(text)
      deepEqual([...Array.from(tokenizer.encode(bytes))], ids, text)
      deepEqual([...Array.from(tokenizer.encode(bytes, { special: true }))], withSpecial, text)
      const again = new TextDecoder('utf-8', { ignoreBOM: true }).decode(tokenizer.decode(ids, { special: true }))
      equal(again, decoded, text)
    }
  })
