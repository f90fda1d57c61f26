/** From bytes to token ids and back. */
import { asPart, finish, type Work } from '../base/index.js'

/** Text to token ids and back. */
export interface Tokenizer {
  readonly name: string
  /** The vocabulary size. */
  readonly vocab: number
  /** The EOS token, if the tokenizer has one. */
  readonly end?: number
  encode(text: Uint8Array): ArrayLike<number>
  /** The same for a long text, as work with progress. */
  encoding?(text: Uint8Array): Work<ArrayLike<number>>
  decode(ids: ArrayLike<number>): Uint8Array
}

/** As work that can be watched, whether the tokenizer has it so or not. */
export function* encodingOf(tokenizer: Tokenizer, text: Uint8Array): Work<ArrayLike<number>> {
  return tokenizer.encoding ? yield* tokenizer.encoding(text) : tokenizer.encode(text)
}

export type Ids = Uint8Array | Uint16Array | Uint32Array

/** Encodes texts and concatenates the ids, in the narrowest array type that holds them. */
export const encodeAll = (tokenizer: Tokenizer, texts: Iterable<Uint8Array>): Ids =>
  finish(encodingAll(tokenizer, [...texts]))

export function* encodingAll(tokenizer: Tokenizer, texts: readonly Uint8Array[]): Work<Ids> {
  const parts: ArrayLike<number>[] = []
  const bytes = texts.reduce((sum, text) => sum + text.length, 0)
  let done = 0
  for (const text of texts) {
    yield done / bytes
    parts.push(yield* asPart(done / bytes, (done + text.length) / bytes, encodingOf(tokenizer, text)))
    if (tokenizer.end !== undefined) parts.push([tokenizer.end])
    done += text.length
  }
  const length = parts.reduce((sum, part) => sum + part.length, 0)
  const ids = idsFor(tokenizer.vocab, length)
  let at = 0
  for (const part of parts) {
    ids.set(part, at)
    at += part.length
  }
  return ids
}

const idsFor = (vocab: number, length: number): Ids =>
  vocab <= 2 ** 8 ? new Uint8Array(length) : vocab <= 2 ** 16 ? new Uint16Array(length) : new Uint32Array(length)

/** Ids that are not counted beforehand, outside of the heap of JavaScript: a text may have more than fit into that. */
export class IdList {
  readonly #vocab: number
  #ids: Ids
  #length = 0

  constructor(vocab: number) {
    this.#vocab = vocab
    this.#ids = idsFor(vocab, 2 ** 10)
  }

  push(ids: readonly number[]): void {
    if (this.#length + ids.length > this.#ids.length) {
      const longer = idsFor(this.#vocab, 2 * (this.#length + ids.length))
      longer.set(this.#ids)
      this.#ids = longer
    }
    this.#ids.set(ids, this.#length)
    this.#length += ids.length
  }

  all(): Ids {
    return this.#ids.subarray(0, this.#length)
  }
}
