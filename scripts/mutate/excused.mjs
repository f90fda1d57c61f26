/** Mutants that compute the same, each with its reason: the source, a part of its line, and what took whose place. */
export const excused = []
