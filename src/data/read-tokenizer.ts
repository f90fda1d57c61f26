/** tokenizer.json of other people, within limits of time and memory. */
import { counted, error, finish, ProblemsError, type Work } from '../base/index.js'
import type { SpecialOptions } from './huggingface.js'
import { asking, patiently, type Question, type TheirLimits } from './theirs.js'
import type { Tokenizer } from './tokenizer.js'

export interface HuggingFaceTokenizer extends Tokenizer {
  encode(text: Uint8Array, options?: SpecialOptions): ArrayLike<number>
  encoding(text: Uint8Array, options?: SpecialOptions): Work<ArrayLike<number>>
  decode(ids: ArrayLike<number>, options?: SpecialOptions): Uint8Array
}

/**
 * Reads a tokenizer.json. Throws an Error fit to print. The tokenizer itself throws a ProblemsError if a text cannot
 * be encoded or takes too long.
 */
export async function readTokenizer(
  text: string,
  name: string,
  limits: TheirLimits = {},
): Promise<HuggingFaceTokenizer> {
  const ask = await asking({ kind: 'tokenizer', text }, limits)
  const { vocab, end } = (await patiently(ask({ ask: 'facts' }, text.length))) as Pick<Tokenizer, 'vocab' | 'end'>
  function* named(question: Question, bytes: number): Work<unknown> {
    try {
      return yield* ask(question, bytes)
    } catch (e) {
      const why = e instanceof Error ? e.message : String(e)
      throw new ProblemsError([error('data/file', '', `${name}: ${question.ask} of ${counted(bytes, 'byte')}: ${why}`)])
    }
  }
  const encoding = (text: Uint8Array, options: SpecialOptions = {}) =>
    named({ ask: 'encode', text, options }, text.length) as Work<readonly number[]>
  return {
    ...{ name, vocab, ...(end !== undefined && { end }) },
    encoding,
    encode: (text, options) => finish(encoding(text, options)),
    decode: (ids, options = {}) =>
      finish(named({ ask: 'decode', ids: Array.from(ids), options }, 4 * ids.length) as Work<Uint8Array>),
  }
}
