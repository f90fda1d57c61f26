/**
 * Byte-pair encoding over bytes (Sennrich et al. 2016; GPT-2's split into words). Training merges the pair that occurs
 * most, ties going to the older tokens, so one text always gives one tokenizer. Counts are kept up to date merge by
 * merge: only the words that hold the merged pair are looked at again. Memory is bounded: words are cut (words.ts), and of
 * many different ones only the first are learned from.
 *
 * Ids: 0-255 the bytes, 256 the end of a text, then the merges in the order they were learned.
 */
import { asPart, finish, type Work } from '../base/index.js'
import { Queue } from './queue.js'
import { IdList, type Tokenizer } from './tokenizer.js'
import { ownCopy, wordPieces } from './words.js'

export const endOfText = 256
export const firstMerge = 257

/**
 * Bytes of different words that are learned from. Each takes about 100 bytes of memory while pairs are counted; words
 * that come later are counted only where they are known already.
 */
const mostTaught = 2 ** 22

export type Merge = readonly [left: number, right: number]

const keyOf = (left: number, right: number): number => left * 2 ** 24 + right
const mergeOf = (key: number): Merge => [Math.floor(key / 2 ** 24), key % 2 ** 24]

export interface TrainingOptions {
  /** Bytes of different words to learn from. */
  readonly mostBytes?: number
  /** Called when there were more. */
  readonly onLimit?: (mostBytes: number) => void
}

/** Trains BPE merges for a vocabulary of this size; fewer if no pair occurs twice any more. */
export const trainMerges = (texts: Iterable<Uint8Array>, vocab: number, options: TrainingOptions = {}): Merge[] =>
  finish(trainingMerges([...texts], vocab, options))

/** The words are counted in about half of the time. */
export function* trainingMerges(
  texts: readonly Uint8Array[],
  vocab: number,
  options: TrainingOptions = {},
): Work<Merge[]> {
  const words = yield* asPart(0, 0.5, countingWords(texts, options))
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
    // The first are found in many words, the last in few.
    yield 0.5 + 0.5 * Math.sqrt(merges.length / (vocab - firstMerge))
    const changed = new Set<number>()
    for (const word of pair.words) mergeIn(word, { left, right, made }, pairs, changed)
    pairs.delete(best.key)
    changed.delete(best.key)
    for (const key of changed) queue.push({ key, times: pairs.get(key)!.times })
  }
  return merges
}

interface Word {
  readonly ids: number[]
  readonly times: number
}

interface Pair {
  times: number
  /** Those it occurs in, or has occurred in. */
  readonly words: Word[]
}

interface Entry {
  readonly key: number
  readonly times: number
}

function* countingWords(
  texts: readonly Uint8Array[],
  { mostBytes = mostTaught, onLimit }: TrainingOptions,
): Work<Word[]> {
  const all = texts.reduce((sum, text) => sum + text.length, 0)
  const words = new Map<string, { ids: number[]; times: number }>()
  const encoder = new TextEncoder()
  let bytes = 0
  let isFull = false
  const add = (word: string): void => {
    const known = words.get(word)
    if (known) known.times++
    else if (!isFull) {
      const ids = [...encoder.encode(word)]
      bytes += ids.length
      isFull = bytes > mostBytes
      if (!isFull) words.set(ownCopy(word), { ids, times: 1 })
    }
  }
  let before = 0
  for (const text of texts) {
    for (const { words: found, read } of wordPieces(text)) {
      for (const word of found) add(word)
      yield (before + read) / all
    }
    before += text.length
  }
  if (isFull) onLimit?.(mostBytes)
  return [...words.values()]
}

function count(pairs: Map<number, Pair>, key: number, word: Word, times: number): void {
  const pair = pairs.get(key)
  if (!pair) pairs.set(key, { times, words: [word] })
  else {
    pair.times += times
    if (times > 0 && pair.words.at(-1) !== word) pair.words.push(word)
  }
}

/** Replaces the pair in one word and counts the pairs around it anew; `changed` collects those that now occur more often. */
function mergeIn(
  word: Word,
  { left, right, made }: { left: number; right: number; made: number },
  pairs: Map<number, Pair>,
  changed: Set<number>,
): void {
  const { ids, times } = word
  const { length } = ids
  const countOut = (one: number, next: number) => count(pairs, keyOf(one, next), word, -times)
  let [write, before, merged] = [0, 0, -1]
  for (let at = 0; at < length; ) {
    if (ids[at] !== left || ids[at + 1] !== right) {
      before = ids[at++]
      ids[write++] = before
      continue
    }
    if (at > 0 && at !== merged) countOut(before, left)
    countOut(left, right)
    if (at + 2 < length) countOut(right, ids[at + 2])
    ids[write++] = made
    before = right
    merged = at += 2
  }
  if (write === length) return // an earlier merge has taken it
  ids.length = write
  for (let at = 1; at < write; at++) {
    if (ids[at - 1] !== made && ids[at] !== made) continue
    const key = keyOf(ids[at - 1], ids[at])
    count(pairs, key, word, times)
    changed.add(key)
  }
}

/** Letters of the words whose ids are remembered. */
const mostRemembered = 2 ** 23

/** A byte-level BPE tokenizer from a list of merges. */
export function bpeTokenizer(merges: readonly Merge[]): Tokenizer {
  const madeBy = new Map(merges.map(([left, right], i) => [keyOf(left, right), firstMerge + i]))
  const bytes = bytesOfTokens(merges)
  const known = new Map<string, readonly number[]>()
  let letters = 0
  const encoder = new TextEncoder()
  const encodeWord = (word: string): readonly number[] => {
    const cached = known.get(word)
    if (cached) return cached
    const ids = mergeWord([...encoder.encode(word)], madeBy)
    letters += word.length
    if (letters < mostRemembered) known.set(ownCopy(word), ids)
    return ids
  }
  function* encoding(text: Uint8Array): Work<ArrayLike<number>> {
    const ids = new IdList(firstMerge + merges.length)
    for (const { words, read } of wordPieces(text)) {
      for (const word of words) ids.push(encodeWord(word))
      yield read / text.length
    }
    return ids.all()
  }
  return {
    name: 'bpe',
    vocab: firstMerge + merges.length,
    end: endOfText,
    encode: text => finish(encoding(text)),
    encoding,
    decode: ids => Uint8Array.from(Array.from(ids).flatMap(id => bytes[id] ?? [])),
  }
}

/**
 * The oldest merge first, and the first place it fits: a pair with the token it makes can only have been learned later.
 * `made` has what each token and the next one make; what is merged away is taken out of both lists.
 */
function mergeWord(ids: number[], madeBy: ReadonlyMap<number, number>): readonly number[] {
  const makes = (at: number): number =>
    at + 1 < ids.length
      ? (madeBy.get(keyOf(ids[at], ids[at + 1])) ?? Number.POSITIVE_INFINITY)
      : Number.POSITIVE_INFINITY
  const made = ids.map((_, at) => makes(at))
  for (;;) {
    let first = 0
    for (let at = 1; at < made.length; at++) if (made[at] < made[first]) first = at
    if (!(made[first] < Number.POSITIVE_INFINITY)) return ids
    ids.splice(first, 2, made[first])
    made.splice(first + 1, 1)
    made[first] = makes(first)
    if (first > 0) made[first - 1] = makes(first - 1)
  }
}

/** What each token stands for; the end of a text for nothing. */
export function bytesOfTokens(merges: readonly Merge[]): number[][] {
  const bytes: number[][] = Array.from({ length: endOfText }, (_, byte) => [byte])
  bytes.push([])
  for (const [left, right] of merges) bytes.push([...bytes[left], ...bytes[right]])
  return bytes
}
