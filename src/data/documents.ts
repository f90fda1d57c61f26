/**
 * Documents packed into sequences: a token that ends one of them says where the next begins. A token's *position* is its place in
 * its document. A document that a sequence cuts in two goes on in the next sequence as another one, and blank samples are
 * documents of one token each. All of it follows from the tokens of a sample, so every plan and every resumed run sees the same.
 */
import type { Dataset } from './dataset.js'
import { fingerprint } from './fingerprint.js'
import type { Samples, Values } from './samples.js'
import { ignored } from './synthetic.js'

export interface Documents {
  /** The token that ends a document, and belongs to it. */
  readonly separator: number
  /** What the last token of a document is to predict: the first of the next (`all`), or nothing (`within`). */
  readonly labels: 'all' | 'within'
}

export const packed = (dataset: Dataset, documents: Documents): Dataset => ({
  ...dataset,
  documents,
  description: `${dataset.description}; documents end with token ${documents.separator}`,
  train: withPositions(dataset.train, documents),
  heldOut: withPositions(dataset.heldOut, documents),
  fingerprint: fingerprint(`${dataset.fingerprint} documents`, [
    documents.separator,
    Number(documents.labels === 'all'),
  ]),
})

function withPositions(samples: Samples, { separator, labels }: Documents): Samples {
  const { size } = samples.inputs.tokens
  const tokensOf = (sample: number): Int32Array => {
    const tokens = new Int32Array(size)
    samples.write('tokens', sample, tokens)
    return tokens
  }
  return {
    ...samples,
    inputs: { ...samples.inputs, positions: { dtype: 'i32', size, blank: 0 } },
    write(input, sample, into) {
      if (input === 'positions') into.set(positionsOf(tokensOf(sample), separator))
      else samples.write(input, sample, into)
      if (input === 'labels' && labels === 'within') ignoreEnds(into, tokensOf(sample), separator)
    },
  }
}

/** Counted from 0 after each separator. */
export function positionsOf(tokens: Int32Array, separator: number): Int32Array {
  const positions = new Int32Array(tokens.length)
  for (let i = 1; i < tokens.length; i++) positions[i] = tokens[i - 1] === separator ? 0 : positions[i - 1] + 1
  return positions
}

function ignoreEnds(labels: Values, tokens: Int32Array, separator: number): void {
  for (const [i, token] of tokens.entries()) if (token === separator) labels[i] = ignored
}
