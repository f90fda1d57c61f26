/** What a run is trained and judged on: two sets of samples that share no token. */
import { type Described, described, roundUp } from '../base/index.js'
import type { Documents } from './documents.js'
import { fingerprint } from './fingerprint.js'
import type { Replay } from './replay.js'
import type { Samples } from './samples.js'
import { beyond, ignored, progressions, rotations, tokenInputs } from './synthetic.js'
import type { Ids } from './tokenizer.js'

/** Training and validation samples, with a description of their source and size. */
export interface Dataset extends Described {
  readonly train: Samples
  readonly heldOut: Samples
  readonly fingerprint: string
  /** Recorded expert routing to replay. */
  readonly replay?: Replay
  /** How documents of a sequence are separated, if there may be several. */
  readonly documents?: Documents
}

/** Added to an id of 32 bits: the token is read, and nothing is to predict it. */
export const noTarget = 2 ** 31

/** The id itself. */
export const tokenIn = (id: number): number => (id >= noTarget ? id - noTarget : id)

/**
 * A dataset of token ids. The last `evalFraction` of them is the validation set. `pad`: documents begin at multiples of this number.
 * `aligned`: sequences are already cut to length, and the label behind the last token is no target.
 */
export function datasetOfIds(ids: Ids, { seq, evalFraction, name, pad = 1, aligned = false }: DatasetShape): Dataset {
  const cut = heldOutFrom(ids, evalFraction, pad)
  const train = windows(ids.subarray(0, aligned ? cut + 1 : cut), seq)
  const heldOut = windows(ids.subarray(cut), seq)
  return {
    ...described('.data/tokens', { name, tokens: ids.length, train: train.count, heldOut: heldOut.count }),
    train,
    heldOut,
    // Not of the name: the same file may be found by another path.
    fingerprint: fingerprint(`${seq} ${evalFraction}`, ids),
  }
}

interface DatasetShape {
  readonly seq: number
  readonly evalFraction: number
  readonly name: string
  readonly pad?: number
  readonly aligned?: boolean
}

/** The first token that is not trained on. */
export const heldOutFrom = (ids: Ids, evalFraction: number, pad = 1): number =>
  Math.min(ids.length, roundUp(Math.ceil(ids.length * (1 - evalFraction)), pad))

/** Runs of `seq` tokens side by side; labels are the tokens one further, so the last token is a label only. */
export const windows = (ids: Ids, seq: number): Samples => ({
  count: Math.max(0, Math.floor((ids.length - 1) / seq)),
  inputs: tokenInputs(seq),
  write(input, sample, into) {
    const ahead = input === 'labels' ? 1 : 0
    const row = ids.subarray(sample * seq + ahead, (sample + 1) * seq + ahead)
    if (!(ids instanceof Uint32Array)) return into.set(row)
    for (const [i, id] of row.entries()) into[i] = ahead > 0 && id >= noTarget ? ignored : tokenIn(id)
  },
})

/** A dataset of generated token sequences that a model can learn, for tests and benchmarks. */
export function syntheticDataset(
  shape: { readonly seq: number } & ({ readonly vocab: number } | { readonly embed: number }),
  seed: number,
): Dataset {
  const samples = 'vocab' in shape ? progressions(shape, seed) : rotations(shape, seed)
  return {
    ...described('vocab' in shape ? '.data/strides' : '.data/vectors'),
    train: samples,
    heldOut: beyond(samples),
    fingerprint: fingerprint('synthetic', [seed, shape.seq, 'vocab' in shape ? shape.vocab : -shape.embed]),
  }
}
