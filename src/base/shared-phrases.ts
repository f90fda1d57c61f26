/** Clauses that messages of several areas share, in English. */
import type { ProblemPhrases } from './phrasing.js'

/** Kinds of memory, and how much of each. */
export const memoryPhrases = {
  '.part': ['{kind} {bytes}'],
  '.kind/parameters': ['parameters'],
  '.kind/gradients': ['gradients'],
  '.kind/optimizer': ['optimizer'],
  '.kind/activations': ['activations'],
  '.kind/workspace': ['workspace'],
  '.kind/data': ['data'],
} as const satisfies ProblemPhrases

/** Instead of an unknown name. */
export const namePhrases = {
  '.meant': ['did you mean {word}?'],
  '.there-are': ['available: {words}'],
} as const satisfies ProblemPhrases
