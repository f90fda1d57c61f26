/**
 * Families of cases that show one thing of many plans: `npm test` takes one of every few, and `npm run test:rest`, which CI runs
 * too, all the others.
 */
import process from 'node:process'
import { test as registered } from 'node:test'

const rest = process.env.LOCKSTEP_TESTS === 'rest'

type Test = (...args: readonly unknown[]) => void
const whether = (taken: () => boolean): typeof registered =>
  ((...args) => taken() && (registered as Test)(...args)) as Test as typeof registered // all that is used of it is to call it

/** One of every `few` cases; in the rest, the others. */
export const some = <T>(cases: Iterable<T>, few: number): T[] => [...cases].filter((_, i) => (i % few === 0) !== rest)

/** The tests of a family: one of every `few`; in the rest, the others. */
export function oneIn(few: number): typeof registered {
  let met = 0
  return whether(() => (met++ % few === 0) !== rest)
}

/** A test that is left to the rest. */
export const later = whether(() => rest)

/** A test that the rest need not repeat, in a file of which it runs something. */
export const test = whether(() => !rest)
