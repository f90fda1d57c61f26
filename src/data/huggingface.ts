/**
 * tokenizer.json, the format of Hugging Face: ours is written as byte-level BPE, and any other is read by their own
 * package, which is loaded when it is first asked for.
 */
import { shorten } from '../base/index.js'
import { bytesOfTokens, endOfText, type Merge } from './bpe.js'
import { byteTokenizer } from './bytes.js'
import { samePartsEverywhere } from './tokenizer-parts.js'
import { wordPattern } from './words.js'

const endText = '<|endoftext|>'

/** What may end a text, in the vocabularies that are about. */
const endTexts = [endText, '<|end_of_text|>', '</s>', '<eos>', '<｜end▁of▁sentence｜>']

/** What may begin one. */
const beginTexts = ['<|begin_of_text|>', '<s>', '<bos>', '<｜begin▁of▁sentence｜>']

/** A token that begins or ends texts. */
export interface EdgeToken {
  readonly id: number
  readonly text: string
}

/** Of a tokenizer.json, as far as it has such tokens. */
export function edgesOf(text: string): { readonly begin?: EdgeToken; readonly end?: EdgeToken } {
  const { model, added_tokens: added } = Object(parseObject(text))
  const vocab = Object(model?.vocab)
  const known = new Map<unknown, unknown>(Array.isArray(added) ? added.map(({ content, id }) => [content, id]) : [])
  const find = (texts: readonly string[]): EdgeToken | undefined => {
    const word = texts.find(one => known.has(one) || Number.isSafeInteger(vocab[one]))
    return word === undefined ? undefined : { id: Number(known.get(word) ?? vocab[word]), text: word }
  }
  const [begin, end] = [find(beginTexts), find(endTexts)]
  return { ...(begin && { begin }), ...(end && { end }) }
}

/** Bytes as letters that can be seen: GPT-2 gives those that cannot the letters from U+0100 on. */
const letters: readonly string[] = (() => {
  const seen = (byte: number) =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255)
  let next = 256
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(seen(byte) ? byte : next++))
})()

/** A tokenizer.json with the same ids as `bpeTokenizer(merges)`. */
export function printTokenizer(merges: readonly Merge[]): string {
  const tokens = bytesOfTokens(merges).map(bytes => bytes.map(byte => letters[byte]).join(''))
  return printTokens(tokens, endOfText, merges)
}

/** A tokenizer.json that gives the same ids as `byteTokenizer`: the zero byte, which no text holds, is the end. */
export const printByteTokenizer = (): string => printTokens([...letters], byteTokenizer.end ?? 0, [])

function printTokens(tokens: string[], end: number, merges: readonly Merge[]): string {
  tokens[end] = endText
  const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false }
  const split = { type: 'Split', pattern: { Regex: wordPattern }, behavior: 'Isolated', invert: false }
  const value = {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [
      {
        ...{ id: end, content: endText, single_word: false, lstrip: false, rstrip: false },
        ...{ normalized: false, special: true },
      },
    ],
    normalizer: null,
    pre_tokenizer: { type: 'Sequence', pretokenizers: [split, byteLevel] },
    post_processor: byteLevel,
    decoder: byteLevel,
    model: {
      ...{ type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null },
      ...{ fuse_unk: false, byte_fallback: false, ignore_merges: false },
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: merges.map(([left, right]) => `${tokens[left]} ${tokens[right]}`),
    },
  }
  return `${JSON.stringify(value, null, 1)}\n`
}

export interface SpecialOptions {
  /** Encoded: with what stands before and after a text. Decoded: with the tokens that are no text. */
  readonly special?: boolean
}

/** A tokenizer.json as their package reads it. */
export interface LoadedTokenizer {
  readonly vocab: number
  readonly end: number | undefined
  encode(text: Uint8Array, options?: SpecialOptions): number[]
  decode(ids: readonly number[], options?: SpecialOptions): Uint8Array
}

/** In this thread, for as long as it takes. Throws an Error whose message is fit to print. */
export async function loadTokenizer(text: string): Promise<LoadedTokenizer> {
  const value = parseObject(text)
  requireIds(value)
  const { Tokenizer: Loaded } = await import('@huggingface/tokenizers')
  let loaded: InstanceType<typeof Loaded>
  try {
    loaded = new Loaded(samePartsEverywhere(value), { clean_up_tokenization_spaces: false })
  } catch (e) {
    throw new Error(
      `is not a tokenizer that @huggingface/tokenizers reads: ${e instanceof Error ? e.message : String(e)}`,
    )
  }
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  const inBytes = fallback(value.model, token => loaded.token_to_id(token))
  const added = [...loaded.get_added_tokens_decoder()]
  // Some files call tokens of single bytes special.
  const noText = new Set(
    added.flatMap(([id, { special, content }]) => (special && !byteToken.test(content) ? [id] : [])),
  )
  return {
    vocab: 1 + greatest([...loaded.get_vocab().values(), ...loaded.get_added_tokens_decoder().keys()]),
    end: endTexts.map(token => loaded.token_to_id(token)).find(id => id !== undefined),
    encode: (bytes, { special = false } = {}) =>
      inBytes(loaded.encode(decoder.decode(bytes), { add_special_tokens: special })),
    decode(ids, { special = false } = {}) {
      const kept = ids.filter(id => special || !noText.has(id))
      // Theirs refuses to decode nothing.
      return new TextEncoder().encode(kept.length > 0 ? loaded.decode(kept, { skip_special_tokens: false }) : '')
    },
  }
}

/** As many tokens as a model may have. */
const mostTokens = 2 ** 24

/** Their package makes a table as long as the greatest id, whatever that is. */
function requireIds({ model, ...tokenizer }: object & { readonly model: unknown }): void {
  const { vocab } = Object(model)
  const { added_tokens: added } = tokenizer as { readonly added_tokens?: unknown }
  const ofModel = typeof vocab === 'object' && vocab !== null && !Array.isArray(vocab) ? Object.entries(vocab) : []
  const more = Array.isArray(added) ? added.map(token => [Object(token).content, Object(token).id] as const) : []
  for (const [token, id] of [...ofModel, ...more])
    if (!(Number.isInteger(id) && id >= 0 && id < mostTokens))
      throw new Error(
        `gives token ${shorten(JSON.stringify(token) ?? '', 60)} the id ${shorten(JSON.stringify(id) ?? '', 60)}, not an integer below ${mostTokens}`,
      )
}

const byteToken = /^<0x[0-9A-F]{2}>$/

interface Encoded {
  readonly ids: readonly number[]
  readonly tokens: readonly string[]
}

/** What their package gives no id: words that a list of words lacks, and pieces for which a Unigram has a token a byte. */
function fallback(model: unknown, idOf: (token: string) => number | undefined): (encoded: Encoded) => number[] {
  const { type, byte_fallback: falls, unk_id: unknown, unk_token: word } = Object(model)
  const other = type === 'WordLevel' ? idOf(word) : undefined
  if (other !== undefined) return ({ ids }) => ids.map(id => id ?? other)
  if (type !== 'Unigram' || falls !== true) return ({ ids }) => [...ids]
  const bytes = Array.from({ length: 256 }, (_, byte) =>
    idOf(`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`),
  )
  return ({ ids, tokens }) =>
    ids.flatMap((id, i) => {
      const own = id === unknown ? Array.from(new TextEncoder().encode(tokens[i]), byte => bytes[byte]) : []
      return own.length > 0 && own.every(one => one !== undefined) && idOf(tokens[i]) !== unknown ? own : [id]
    })
}

function parseObject(text: string): object & { readonly model: unknown } {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new Error('is not valid JSON')
  }
  if (typeof value !== 'object' || value === null || !('model' in value))
    throw new Error('is not a tokenizer.json: it has no model')
  return value
}

const greatest = (ids: readonly number[]): number => ids.reduce((most, id) => Math.max(most, id), -1)
