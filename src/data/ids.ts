/** Token files: ids of two or four bytes each, least byte first, as nanoGPT and llm.c write them. */
import { tokenIn } from './dataset.js'
import type { Ids } from './tokenizer.js'

/** llm.c begins with 256 words of four bytes: this one, the version, the number of tokens. */
const llmcMagic = 20240520
const llmcHeader = 1024

/** Throws an Error whose message is fit to print. */
export function readIds(bytes: Uint8Array, width: 'u16' | 'u32'): Ids {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const headed = bytes.length >= llmcHeader && view.getUint32(0, true) === llmcMagic
  const body = headed ? bytes.subarray(llmcHeader) : bytes
  const size = width === 'u16' ? 2 : 4
  if (body.length % size !== 0)
    throw new Error(
      `${body.length} bytes are not a multiple of ${width}: the file is truncated or has a different width`,
    )
  const own = body.slice().buffer // a fresh buffer begins at a whole word, whatever the file's place in memory
  return width === 'u16' ? new Uint16Array(own) : new Uint32Array(own)
}

export function greatestId(ids: Ids): number {
  let most = 0
  for (let i = 0; i < ids.length; i++) most = Math.max(most, tokenIn(ids[i]))
  return most
}
