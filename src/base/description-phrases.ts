/** Descriptions of a run's kernels and data, in English. */
import { english, type Filling, type Spoken, speak, spoken } from './phrase.js'
import type { ProblemPhrases } from './phrasing.js'

export const descriptionPhrases = {
  '.kernels/native': ['native, {target}, {bits}-bit vectors'],
  '.kernels/tiles': ['native, {target}, {bits}-bit vectors, AMX tiles'],
  '.kernels/relaxed': ['WebAssembly, relaxed SIMD'],
  '.kernels/plain': ['WebAssembly, SIMD'],
  '.run/ranks': ['{kernels}, {ranks} ranks, one thread each'],
  '.run/rank': ['{kernels}, one rank'],
  '.run/in-turns': ['reference interpreter in {digits}, {ranks} ranks interleaved in one thread'],
  '.run/alone': ['reference interpreter in {digits}, one rank in one thread'],
  '.data/tokens': ['{name}: {tokens} tokens, {train} training sequences, {heldOut} validation sequences'],
  '.data/strides': ['synthetic: counting by strides'],
  '.data/vectors': ['synthetic: vectors rotated by one element'],
  '.data/documents': ['{data}; EOS token {separator} ends documents'],
  '.data/filled': ['{data}; EOS token {separator} ends documents, padded to multiples of {pad}'],
} as const satisfies ProblemPhrases

/** The message templates of field descriptions, for a UI that translates them. */
export type DescriptionPhrases = typeof descriptionPhrases

/** In English, and as the phrase that it is. */
export interface Described {
  readonly description: string
  readonly said?: Spoken
}

export function described<Name extends keyof DescriptionPhrases>(
  phrase: Name,
  ...filling: Filling<DescriptionPhrases[Name]>
): Required<Described> {
  const said = spoken(phrase, filling)
  return { description: speak(said, english(descriptionPhrases))[0], said }
}
