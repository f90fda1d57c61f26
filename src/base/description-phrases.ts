/** What a run computes with and learns from, for people, in English. */
import { english, type Filling, type Spoken, speak, spoken } from './phrase.js'
import type { ProblemPhrases } from './phrasing.js'

export const descriptionPhrases = {
  '.kernels/native': ['native, {target}, {bits}-bit vectors'],
  '.kernels/tiles': ['native, {target}, {bits}-bit vectors, AMX tiles'],
  '.kernels/relaxed': ['WebAssembly, relaxed SIMD'],
  '.kernels/plain': ['WebAssembly, SIMD'],
  '.run/ranks': ['{kernels}, {ranks} ranks, a thread each'],
  '.run/rank': ['{kernels}, one rank'],
  '.run/in-turns': ['reference interpreter in {digits}, {ranks} ranks taking turns in one thread'],
  '.run/alone': ['reference interpreter in {digits}, one rank in one thread'],
  '.data/tokens': ['{name}: {tokens} tokens, {train} sequences to train on, {heldOut} held out'],
  '.data/strides': ['synthetic: counting by strides'],
  '.data/vectors': ['synthetic: vectors turned by one place'],
  '.data/documents': ['{data}; documents end with token {separator}'],
  '.data/filled': ['{data}; documents end with token {separator}, filled up to multiples of {pad}'],
} as const satisfies ProblemPhrases

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
