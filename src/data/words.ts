/**
 * What GPT-2 treats as a word: a run of letters, digits or other signs with the space before it, or of space. A run longer
 * than `longestWord` (a key, a minified file, text without spaces) is cut: what there is to learn is in the pieces, and no
 * text, however long its words are, needs more memory or time than any other.
 */
export const longestWord = 256

const upTo = `{1,${longestWord}}`
export const wordPattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}${upTo}| ?\\p{N}${upTo}| ?[^\\s\\p{L}\\p{N}]${upTo}|\\s${upTo}(?!\\S)|\\s${upTo}`

/** The letters a word and what it looks ahead to can take, each of them two places in a string. */
const mostPlaces = 2 * (longestWord + 2)

/** The words of a text, one by one. */
export function* wordsIn(bytes: Uint8Array, piece?: number): Generator<string> {
  for (const { words } of wordPieces(bytes, piece)) yield* words
}

export interface WordPiece {
  readonly words: readonly string[]
  /** How many bytes of the text were read. */
  readonly read: number
}

/** The words of a text, which is decoded piece by piece: it may be longer than any string. */
export function* wordPieces(bytes: Uint8Array, piece = 2 ** 20): Generator<WordPiece> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let rest = ''
  for (let at = 0; at < bytes.length; at += piece) {
    const isLast = at + piece >= bytes.length
    const text = rest + decoder.decode(bytes.subarray(at, at + piece), { stream: !isLast })
    const words: string[] = []
    let end = 0
    for (const { 0: word, index } of text.matchAll(new RegExp(wordPattern, 'gu'))) {
      // What follows may change this word.
      if (!isLast && index + mostPlaces > text.length) break
      words.push(word)
      end = index + word.length
    }
    rest = text.slice(end)
    yield { words, read: Math.min(at + piece, bytes.length) }
  }
}

/** A word by itself: cut out of a text, it would keep all of the text in memory. */
export const ownCopy = (word: string): string =>
  new TextDecoder('utf-8', { ignoreBOM: true }).decode(new TextEncoder().encode(word))
