/** What stands within phrases of several families, in English. */
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

/** Instead of a name that nobody has. */
export const namePhrases = {
  '.meant': ['did you mean {word}?'],
  '.there-are': ['there are {words}'],
} as const satisfies ProblemPhrases
