/**
 * What other people's files bring along to be run: the patterns of a tokenizer.json, a chat template. Neither need ever end, so they
 * run in a thread of their own, with limits of time and memory; where there is none, in this one.
 */
import type { Work } from '../base/index.js'
import { type EnclosureLimits, platform } from '../platform/index.js'
import { type LoadedTokenizer, loadTokenizer, type SpecialOptions } from './huggingface.js'

/** A file, as the thread is opened with it. */
export type Theirs =
  | { readonly kind: 'tokenizer'; readonly text: string }
  | { readonly kind: 'template'; readonly text: string; readonly special: Readonly<Record<string, string>> }

export type Question =
  | { readonly ask: 'facts' }
  | { readonly ask: 'encode'; readonly text: Uint8Array; readonly options: SpecialOptions }
  | { readonly ask: 'decode'; readonly ids: readonly number[]; readonly options: SpecialOptions }
  | { readonly ask: 'render'; readonly said: readonly unknown[] }

/** In the thread. */
export async function openTheirs(theirs: Theirs): Promise<(question: Question) => unknown> {
  if (theirs.kind === 'template') return rendererOf(theirs)
  const loaded = await loadTokenizer(theirs.text)
  return question => answerOf(loaded, question)
}

function answerOf({ vocab, end, encode, decode }: LoadedTokenizer, question: Question): unknown {
  switch (question.ask) {
    case 'facts':
      return { vocab, end }
    case 'encode':
      return encode(question.text, question.options)
    case 'decode':
      return decode(question.ids, question.options)
    case 'render':
      throw new Error('internal: a tokenizer renders nothing')
  }
}

async function rendererOf({ text, special }: Extract<Theirs, { kind: 'template' }>) {
  const { Template } = await import('@huggingface/jinja')
  const template = new Template(text)
  return (question: Question) =>
    question.ask === 'render'
      ? template.render({ ...special, messages: [...question.said], add_generation_prompt: true })
      : undefined
}

/** Seconds that every question may take, and bytes that it may add a second for. */
const usualSeconds = 10
const bytesPerSecond = 50_000

export interface TheirLimits extends EnclosureLimits {
  readonly seconds?: number | undefined
}

/** Asks a question; `bytes`: what there is to read for the answer. */
export type Ask = (question: Question, bytes: number) => Work<unknown>

export async function asking(theirs: Theirs, { seconds = usualSeconds, ...limits }: TheirLimits): Promise<Ask> {
  const enclosure = platform.enclose?.(new URL('./enclosed.js', import.meta.url), theirs, limits)
  if (enclosure) return (question, bytes) => enclosure.ask(question, 1000 * (seconds + bytes / bytesPerSecond))
  const answer = await openTheirs(theirs)
  return function* (question) {
    yield 0
    return answer(question)
  }
}

/** The answer, with pauses in which others have their turn. */
export async function patiently(work: Work<unknown>): Promise<unknown> {
  for (;;) {
    const next = work.next()
    if (next.done) return next.value
    await platform.pause()
  }
}
