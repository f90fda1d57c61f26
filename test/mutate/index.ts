/**
 * Ways to break a program, each a small slip of the kind a compiler makes: a collective dropped, a group changed, an
 * operand of the same type taken for another, a frame freed early. A mutation says what it did and where, so that a
 * test can ask whether the laws point there. Inside a segment a slip hits every call of it, or one call alone.
 */
import { choices } from '../../src/base/index.js'
import type { Program } from '../../src/ir/index.js'
import type { Mutation, Mutator } from './draw.js'
import { inParts } from './parts.js'
import { inBuffers, inDtypes, inSegments } from './segments.js'
import { inDeclarations, inStreams } from './streams.js'

export type { Mutation } from './draw.js'

export const mutators: Readonly<Record<string, Mutator>> = {
  ...inSegments,
  ...inBuffers,
  ...inStreams,
  ...inDeclarations,
  ...inDtypes,
  ...inParts,
}

/** Mutations of every kind, as many of each as can be found in a few tries. */
export function mutationsOf(program: Program, seed: number, each: number): Mutation[] {
  return Object.entries(mutators).flatMap(([name, mutator], i) => {
    const random = choices(seed * 1000 + i)
    const found: Mutation[] = []
    for (let tries = 0; tries < 20 * each && found.length < each; tries++) {
      const mutation = mutator(program, random)
      if (mutation && mutation.program !== program) found.push({ name, ...mutation })
    }
    return found
  })
}
