/** Every byte is a token. Texts are told apart by a zero byte, which no text holds. */
import type { Tokenizer } from './tokenizer.js'

/** A tokenizer whose ids are bytes: vocabulary 256. */
export const byteTokenizer: Tokenizer = {
  name: 'bytes',
  vocab: 256,
  end: 0,
  encode: text => text,
  decode: ids => Uint8Array.from(ids),
}

/** Bytes that are no text: a zero among the first of them, as git and grep judge it. */
export const looksBinary = (bytes: Uint8Array): boolean => bytes.subarray(0, 8192).includes(0)
