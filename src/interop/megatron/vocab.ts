/** Rows of the embedding table: what a tokenizer has, filled up so that tp divides it. */

import type { Release } from './flag-table.js'
import { isBefore } from './flags.js'
import type { Terms } from './terms.js'

/** Tokens of tokenizers that a configuration names and does not count. */
const tokenizers: readonly (readonly [RegExp, number, string])[] = [
  [/gpt-?2|GPT2BPE/i, 50257, 'GPT-2'],
  [/llama[-_]?3|Meta-Llama-3/i, 128256, 'Llama 3'],
  [/llama[-_]?2|llama-2|Llama2Tokenizer/i, 32000, 'Llama 2'],
  [/mixtral|mistral/i, 32000, 'Mistral'],
]

export function readVocab(t: Terms): void {
  const padded = ['padded-vocab-size', 'pad-vocab-size-to'].find(term => t.has(term))
  if (padded) {
    const size = t.whole(padded, 1)
    if (size !== undefined) t.carry(padded, 'model.vocab', size)
    t.read('vocab-size', 'make-vocab-size-divisible-by')
    return
  }
  const { size, said } = tokensOf(t)
  if (size === undefined) {
    t.reading.missing('model.vocab', 'only the tokenizer knows the vocabulary size: set model.vocab')
    return
  }
  const by = t.whole('make-vocab-size-divisible-by', 1) ?? Number(t.defaults.value('make-vocab-size-divisible-by') ?? 1)
  const tp = Number(t.reading.field('plan.tp') ?? 1)
  const rows = Math.ceil(size / (by * tp)) * by * tp
  t.derive(
    t.has('vocab-size') ? 'vocab-size' : 'tokenizer-type',
    'model.vocab',
    rows,
    `${rows} = ${said}, up to a multiple of ${by} x tp ${tp}`,
  )
  t.read('make-vocab-size-divisible-by')
}

function tokensOf(t: Terms): { size?: number; said: string } {
  const given = t.whole('vocab-size', 1)
  const type = t.word('tokenizer-type') ?? ''
  const extra = t.whole('vocab-extra-ids') ?? 0
  if (given !== undefined) {
    const one = type === 'NullTokenizer' && isBefore(releaseIn(t), '0.17') ? 1 : 0
    return { size: given + one, said: one ? `${given} + 1 of the NullTokenizer` : `${given}` }
  }
  const names = [type, t.word('tokenizer-model'), t.word('tokenizer-name-or-path'), t.word('vocab-file')].join(' ')
  const bpe = t.has('merge-file') && type === '' ? 'GPT2BPE' : ''
  const found = tokenizers.find(([pattern]) => pattern.test(`${names} ${bpe}`))
  return found ? { size: found[1] + extra, said: `${found[1]} tokens of ${found[2]}` } : { said: '' }
}

const releaseIn = (t: Terms): Release => (t.defaults.value('release') as Release | undefined) ?? '2026-08' // put there by who knows it
