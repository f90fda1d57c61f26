/**
 * Families of cases that show one thing of many plans: `npm test` takes one of every few, and `npm run test:rest`, which CI runs
 * too, the others, or of the largest families again one of every few. `LOCKSTEP_TESTS=all` runs every case.
 */
import process from 'node:process'
import { test as registered } from 'node:test'

const asked = process.env.LOCKSTEP_TESTS
const rest = asked === 'rest'

/** Whether this run has case i, of which `npm test` takes one of every `few`, and the rest one of every `others` of those that are left. */
const has = (i: number, few: number, others: number): boolean =>
  asked === 'all' || (rest ? i % few > 0 && i % others === 1 % others : i % few === 0)

type Test = (...args: readonly unknown[]) => void
const whether = (taken: () => boolean): typeof registered =>
  ((...args) => taken() && (registered as Test)(...args)) as Test as typeof registered // all that is used of it is to call it

/** One of every `few` cases; in the rest, the others, or one of every so many of them. */
export const some = <T>(cases: Iterable<T>, few: number, others = 1): T[] =>
  [...cases].filter((_, i) => has(i, few, others))

/** The tests of a family: one of every `few`; in the rest, the others, or one of every so many of them. */
export function oneIn(few: number, others = 1): typeof registered {
  let met = 0
  return whether(() => has(met++, few, others))
}

/** A test that is left to the rest. */
export const later = whether(() => rest || asked === 'all')

/** A test that the rest need not repeat, in a file of which it runs something. */
export const test = whether(() => !rest)
