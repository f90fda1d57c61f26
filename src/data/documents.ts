/**
 * Documents packed into sequences: a token that ends one of them says where the next begins. A token's *position* is its place in
 * its document. A document that a sequence cuts in two goes on in the next sequence as another one. Where documents are *padded*,
 * each is filled up to a multiple of so many tokens: what fills it belongs to it, reads as the token that ends it, and predicts
 * nothing. All of it follows from the tokens of a sample, so every plan and every resumed run sees the same.
 */
import { described, roundUp } from '../base/index.js'
import type { Dataset } from './dataset.js'
import { fingerprint } from './fingerprint.js'
import type { Samples, Values } from './samples.js'
import { ignored } from './synthetic.js'
import type { Ids } from './tokenizer.js'

export interface Documents {
  /** The token that ends a document, and belongs to it. */
  readonly eod: number
  /** Its loss is masked; else it predicts the first token of the next document. */
  readonly eodMaskLoss: boolean
  /** Documents are filled up to multiples of so many tokens. */
  readonly pad: number
}

export function packed(dataset: Dataset, documents: Documents): Dataset {
  const { eod, eodMaskLoss, pad } = documents
  const data = dataset.said ?? dataset.description
  return {
    ...dataset,
    documents,
    ...(pad > 1
      ? described('.data/filled', { data, separator: eod, pad })
      : described('.data/documents', { data, separator: eod })),
    train: inDocuments(dataset.train, documents),
    heldOut: inDocuments(dataset.heldOut, documents),
    fingerprint: fingerprint(`${dataset.fingerprint} documents`, [
      ...[eod, Number(!eodMaskLoss)],
      ...(pad > 1 ? [pad] : []),
    ]),
  }
}

/** Ids with room behind each document, filled with the token that ends it, so that the next begins at a multiple of `pad`. */
export function padded(ids: Ids, { eod, pad }: Pick<Documents, 'eod' | 'pad'>): Ids {
  if (pad === 1) return ids
  const lengths: number[] = []
  for (let from = 0, end = 0; end >= 0; from = end + 1) {
    end = ids.indexOf(eod, from)
    lengths.push((end < 0 ? ids.length : end + 1) - from)
  }
  const last = lengths.pop() ?? 0
  const room = lengths.reduce((sum, length) => sum + roundUp(length, pad), last)
  const roomy = roomFor(ids, room).fill(eod)
  let [from, to] = [0, 0]
  for (const length of [...lengths, last]) {
    roomy.set(ids.subarray(from, from + length), to)
    from += length
    to += roundUp(length, pad)
  }
  return roomy
}

/** As wide as the others. */
const roomFor = (ids: Ids, room: number): Ids =>
  ids instanceof Uint8Array
    ? new Uint8Array(room)
    : ids instanceof Uint16Array
      ? new Uint16Array(room)
      : new Uint32Array(room)

/** Samples of a dataset whose documents are told apart; what a document is filled up with takes the place of what was there. */
function inDocuments(samples: Samples, documents: Documents): Samples {
  const { size } = samples.inputs.tokens
  const tokensOf = (sample: number): Int32Array => {
    const tokens = new Int32Array(size)
    samples.write('tokens', sample, tokens)
    return tokens
  }
  return {
    ...samples,
    inputs: { ...samples.inputs, positions: { dtype: 'i32', size, blank: place => place % documents.pad } },
    write(input, sample, into) {
      const tokens = tokensOf(sample)
      const { positions, ends, fills } = documentsIn(tokens, documents)
      if (input === 'positions') return into.set(positions)
      samples.write(input, sample, into)
      if (input === 'tokens') for (const i of fills) into[i] = documents.eod
      if (input === 'labels') relabel(into, ends, documents)
      if (input === 'labels') for (const i of fills) into[i] = ignored
    },
  }
}

/** Sequences that are looked at to learn how long documents are. */
const mostLookedAt = 256

/**
 * How far attention goes where tokens see their own document, of a window so many tokens of it: twice as many tokens as each sees on average, of
 * itself a half (model/flops.ts), over sequences evenly spread over the data. Undefined: a sequence is one document.
 */
export function extentOfDocuments(samples: Samples, window = Number.POSITIVE_INFINITY): number | undefined {
  const { positions } = samples.inputs
  if (!positions || samples.count === 0) return undefined
  const looked = Math.min(mostLookedAt, samples.count)
  const row = new Int32Array(positions.size)
  let seen = 0
  for (let i = 0; i < looked; i++) {
    samples.write('positions', Math.floor((i * samples.count) / looked), row)
    for (const position of row) seen += Math.min(position + 1, window) - 0.5
  }
  return (2 * seen) / (looked * row.length)
}

/** The positions of a sequence's tokens, which of them end a document, and which come after that in it. */
export function documentsIn(tokens: Int32Array, { eod, pad }: Pick<Documents, 'eod' | 'pad'>) {
  const [positions, ends, fills] = [new Int32Array(tokens.length), [] as number[], [] as number[]]
  for (let i = 0, ended = false; i < tokens.length; i++) {
    const begins: boolean = i === 0 || (ended && i % pad === 0)
    positions[i] = begins ? 0 : positions[i - 1] + 1
    if (ended && !begins) fills.push(i)
    else if (tokens[i] === eod) ends.push(i)
    ended = (ended && !begins) || tokens[i] === eod
  }
  return { positions, ends, fills }
}

/** The last token of a document predicts the first of the next, wherever that begins, or nothing. */
function relabel(labels: Values, ends: readonly number[], { eodMaskLoss, pad }: Documents): void {
  for (const i of ends) labels[i] = eodMaskLoss ? ignored : labels[roundUp(i + 1, pad) - 1]
}
