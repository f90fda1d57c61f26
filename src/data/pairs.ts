/**
 * Prompts and answers, a JSON object a line: only answers are learned. A pair is a few parts of text, each learned or not,
 * and the token that ends a text; pairs lie whole in sequences, and what is left of a sequence teaches nothing.
 */
import { asPart, finish, type Work } from '../base/index.js'
import { noTarget } from './dataset.js'
import { encodingOf, type Ids, type Tokenizer } from './tokenizer.js'

/** Names of the members that hold prompt and answer. */
export interface PairNames {
  readonly prompt: string
  readonly answer: string
}

/** A part of a pair: answers are targets. */
export interface PairPart {
  readonly text: string
  readonly target: boolean
}

/** What pairs are called where the job does not say; `messages` are told by themselves. */
const usualNames: readonly PairNames[] = [
  { prompt: 'prompt', answer: 'answer' },
  { prompt: 'prompt', answer: 'completion' },
  { prompt: 'instruction', answer: 'output' },
  { prompt: 'question', answer: 'answer' },
]

type PairLine = Readonly<Record<string, unknown>>

/** Throws an Error fit to print that names the line. */
export function readPairs(text: string, names?: PairNames): PairPart[][] {
  const pairs = text.split('\n').flatMap((line, i) => {
    if (line.trim() === '') return []
    const refuse = (message: string): never => {
      throw new Error(`line ${i + 1} ${message}`)
    }
    return [partsOf(objectIn(line, refuse), names, refuse)]
  })
  if (pairs.length === 0) throw new Error('holds no pairs')
  return pairs
}

type Refuse = (message: string) => never

function objectIn(line: string, refuse: Refuse): PairLine {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return refuse('is not JSON')
  }
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as PairLine) // just looked at
    : refuse('is not a JSON object')
}

function partsOf(line: PairLine, names: PairNames | undefined, refuse: Refuse): PairPart[] {
  if (!names && Array.isArray(line.messages)) return chatOf(line.messages, refuse)
  const found = names ?? usualNames.find(({ prompt, answer }) => prompt in line && answer in line)
  if (!found)
    return refuse(`has no prompt and answer, instruction and output, or messages: ${Object.keys(line).join(', ')}`)
  const [prompt, answer] = [line[found.prompt], line[found.answer]]
  if (typeof prompt !== 'string') return refuse(`has no text \`${found.prompt}\``)
  if (typeof answer !== 'string') return refuse(`has no text \`${found.answer}\``)
  const input = !names && found.prompt === 'instruction' && typeof line.input === 'string' ? line.input : ''
  return [
    { text: input === '' ? prompt : `${prompt}\n${input}`, target: false },
    { text: answer, target: true },
  ]
}

/** `role: content`, a line each; what the assistant says is learned, with the line break that ends it. */
function chatOf(messages: readonly unknown[], refuse: Refuse): PairPart[] {
  return messages.flatMap((message, i) => {
    const { role, content } = Object(message)
    if (typeof role !== 'string' || typeof content !== 'string')
      return refuse(`: message ${i + 1} has no role and content`)
    return [
      { text: `${role}: `, target: false },
      { text: `${content}\n`, target: role === 'assistant' },
    ]
  })
}

export interface PackedPairs {
  /** Tokens that are no target have `noTarget` added. */
  readonly ids: Ids
  /** Pairs that were longer than a sequence, and lost their end. */
  readonly cut: number
  readonly targets: number
}

type Pairs = readonly (readonly PairPart[])[]

export const packedPairs = (pairs: Pairs, tokenizer: Tokenizer, seq: number): PackedPairs =>
  finish(packingPairs(pairs, tokenizer, seq))

/** Whole pairs in sequences of `seq` tokens, and one token more, which is a label only. */
export function* packingPairs(pairs: Pairs, tokenizer: Tokenizer, seq: number): Work<PackedPairs> {
  const { end } = tokenizer
  const filler = (end ?? 0) + noTarget
  const all: number[] = []
  let [cut, targets] = [0, 0]
  for (const [i, parts] of pairs.entries()) {
    yield i / pairs.length
    const ids = yield* asPart(i / pairs.length, (i + 1) / pairs.length, encodingPair(parts, tokenizer))
    // A sequence has room for one token more that is only predicted; that place is the first of the next pair.
    if (ids.length > seq) cut++
    const kept = ids.slice(0, seq)
    const room = seq - (all.length % seq)
    if (room < kept.length) for (let i = 0; i < room; i++) all.push(filler)
    for (const id of kept) {
      all.push(id)
      if (id < noTarget) targets++
    }
  }
  while (all.length % seq !== 0) all.push(filler)
  all.push(filler)
  return { ids: Uint32Array.from(all), cut, targets }
}

/** The first token of a pair is predicted from nothing: it is no target. */
function* encodingPair(parts: readonly PairPart[], tokenizer: Tokenizer): Work<number[]> {
  const ids: number[] = []
  for (const { text, target } of parts) {
    const encoded = yield* encodingOf(tokenizer, new TextEncoder().encode(text))
    for (const id of Array.from(encoded)) ids.push(target ? id : id + noTarget)
  }
  const ended = tokenizer.end === undefined ? ids : [...ids, tokenizer.end]
  return ended.map((id, i) => (i === 0 && id < noTarget ? id + noTarget : id))
}
