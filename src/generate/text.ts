/** Tokens as text while they come: a letter may be made of several tokens, and is given when it is whole. */
import type { Tokenizer } from '../data/index.js'

export interface TextStream {
  /** What can be said with one token more. */
  add(id: number): string
  /** What is left at the end. */
  end(): string
}

/** Decodes token ids to text as they arrive, holding back incomplete UTF-8 characters. */
export function textStream({ decode }: Tokenizer): TextStream {
  const textOf = (ids: readonly number[]) => new TextDecoder('utf-8', { ignoreBOM: true }).decode(decode(ids))
  /** Those since the last but one piece that was said: tokens may be decoded otherwise behind others. */
  let ids: number[] = []
  let said = 0
  const rest = () => textOf(ids).slice(textOf(ids.slice(0, said)).length)
  return {
    add(id) {
      ids.push(id)
      const piece = rest()
      if (piece === '' || piece.endsWith('\ufffd')) return ''
      ids = ids.slice(said)
      said = ids.length
      return piece
    },
    end() {
      const piece = rest()
      said = ids.length
      return piece
    },
  }
}
