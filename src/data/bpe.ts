/**
 * Byte-pair encoding over bytes (Sennrich et al. 2016; GPT-2's split into words). Training merges the pair that occurs
 * most, ties going to the older tokens, so one text always gives one tokenizer. Counts are kept up to date merge by
 * merge: only the words that hold the merged pair are looked at again.
 *
 * Ids: 0-255 the bytes, 256 the end of a text, then the merges in the order they were learned.
 */
import { Queue } from './queue.js'
import type { Tokenizer } from './tokenizer.js'

export const endOfText = 256
export const firstMerge = 257

/** What GPT-2 treats as a word: a run of letters, digits or other signs with the space before it, or of space. */
const wordPattern = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu

/** A longer word (a key, a minified file) would cost more to learn from than it teaches. */
const longestTaught = 1024

export type Merge = readonly [left: number, right: number]

const keyOf = (left: number, right: number): number => left * 2 ** 24 + right
const mergeOf = (key: number): Merge => [Math.floor(key / 2 ** 24), key % 2 ** 24]

/** The merges of a vocabulary of that size; fewer where no pair occurs twice any more. */
export function trainMerges(texts: Iterable<Uint8Array>, vocab: number): Merge[] {
  const words = wordsOf(texts)
  const pairs = new Map<number, Pair>()
  for (const word of words)
    for (let i = 1; i < word.ids.length; i++) count(pairs, keyOf(word.ids[i - 1], word.ids[i]), word, word.times)
  const queue = new Queue<Entry>((a, b) => b.times - a.times || a.key - b.key)
  for (const [key, { times }] of pairs) queue.push({ key, times })
  const merges: Merge[] = []
  while (firstMerge + merges.length < vocab) {
    const best = queue.pop()
    if (!best || best.times < 2) break
    const pair = pairs.get(best.key)
    if (!pair) continue // merged already; this was an older count of it
    if (pair.times !== best.times) {
      // Counted when it occurred more often: ask again with what is left.
      if (pair.times > 0) queue.push({ key: best.key, times: pair.times })
      continue
    }
    const [left, right] = mergeOf(best.key)
    const made = firstMerge + merges.length
    merges.push([left, right])
    const changed = new Set<number>()
    for (const word of pair.words) mergeIn(word, { left, right, made }, pairs, changed)
    pairs.delete(best.key)
    changed.delete(best.key)
    for (const key of changed) queue.push({ key, times: pairs.get(key)!.times })
  }
  return merges
}

interface Word {
  ids: number[]
  readonly times: number
}

interface Pair {
  times: number
  readonly words: Set<Word>
}

interface Entry {
  readonly key: number
  readonly times: number
}

function wordsOf(texts: Iterable<Uint8Array>): Word[] {
  const times = new Map<string, number>()
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  for (const text of texts)
    for (const [word] of decoder.decode(text).matchAll(wordPattern)) times.set(word, (times.get(word) ?? 0) + 1)
  const encoder = new TextEncoder()
  return [...times]
    .filter(([word]) => word.length <= longestTaught)
    .map(([word, times]) => ({ ids: [...encoder.encode(word)], times }))
}

function count(pairs: Map<number, Pair>, key: number, word: Word, times: number): void {
  const pair = pairs.get(key)
  if (!pair) pairs.set(key, { times, words: new Set([word]) })
  else {
    pair.times += times
    if (times > 0) pair.words.add(word)
  }
}

/** Replaces the pair in one word; `changed` collects pairs that now occur more often. */
function mergeIn(
  word: Word,
  { left, right, made }: { left: number; right: number; made: number },
  pairs: Map<number, Pair>,
  changed: Set<number>,
): void {
  const { ids, times } = word
  if (!hasPair(ids, left, right)) return // an earlier merge has taken it
  for (let i = 1; i < ids.length; i++) count(pairs, keyOf(ids[i - 1], ids[i]), word, -times)
  const merged = mergeAll(ids, left, right, made)
  for (let i = 1; i < merged.length; i++) {
    const key = keyOf(merged[i - 1], merged[i])
    count(pairs, key, word, times)
    if (merged[i - 1] === made || merged[i] === made) changed.add(key)
  }
  word.ids = merged
}

function hasPair(ids: readonly number[], left: number, right: number): boolean {
  for (let i = 1; i < ids.length; i++) if (ids[i - 1] === left && ids[i] === right) return true
  return false
}

function mergeAll(ids: readonly number[], left: number, right: number, made: number): number[] {
  const merged: number[] = []
  for (let i = 0; i < ids.length; i++)
    if (ids[i] === left && ids[i + 1] === right) {
      merged.push(made)
      i++
    } else merged.push(ids[i])
  return merged
}

/** The tokenizer of a list of merges. */
export function bpeTokenizer(merges: readonly Merge[]): Tokenizer {
  const madeBy = new Map(merges.map(([left, right], i) => [keyOf(left, right), firstMerge + i]))
  const bytes = bytesOfTokens(merges)
  const known = new Map<string, readonly number[]>()
  const encoder = new TextEncoder()
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  const encodeWord = (word: string): readonly number[] => {
    const cached = known.get(word)
    if (cached) return cached
    const ids = mergeWord([...encoder.encode(word)], madeBy)
    if (known.size < 2 ** 20) known.set(word, ids)
    return ids
  }
  return {
    name: 'bpe',
    vocab: firstMerge + merges.length,
    end: endOfText,
    encode(text) {
      const ids: number[] = []
      for (const [word] of decoder.decode(text).matchAll(wordPattern)) for (const id of encodeWord(word)) ids.push(id)
      return ids
    },
    decode: ids => Uint8Array.from(Array.from(ids).flatMap(id => bytes[id] ?? [])),
  }
}

/** The oldest merge first, everywhere it fits: a pair with the token it makes can only have been learned later. */
function mergeWord(ids: number[], madeBy: ReadonlyMap<number, number>): readonly number[] {
  for (;;) {
    let best = Number.POSITIVE_INFINITY
    let at = 0
    for (let i = 1; i < ids.length; i++) {
      const made = madeBy.get(keyOf(ids[i - 1], ids[i]))
      if (made !== undefined && made < best) [best, at] = [made, i]
    }
    if (best === Number.POSITIVE_INFINITY) return ids
    ids = mergeAll(ids, ids[at - 1], ids[at], best)
  }
}

/** What each token stands for; the end of a text for nothing. */
export function bytesOfTokens(merges: readonly Merge[]): number[][] {
  const bytes: number[][] = Array.from({ length: endOfText }, (_, byte) => [byte])
  bytes.push([])
  for (const [left, right] of merges) bytes.push([...bytes[left], ...bytes[right]])
  return bytes
}
