/**
 * Conformance families: many cases that hold one claim against many plans. `npm test` runs every few-th case, `npm run test:rest`
 * all the others, so CI, which runs both, runs every case. Cases leave a record (planned, run, passed, skipped) in the folder
 * LOCKSTEP_RECORDS; scripts/families.mjs adds the records up and fails where fewer ran than were planned.
 * LOCKSTEP_TESTS=all runs every case at once, LOCKSTEP_TESTS=fast the first of each family.
 */
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import process from 'node:process'
import { test as registered, type TestContext, type TestOptions } from 'node:test'

const share = process.env.LOCKSTEP_TESTS
const records = process.env.LOCKSTEP_RECORDS

/** Whether this run has a case: `npm test` takes one in `few`, the rest all others; of a family with Infinity, all of them. */
function isTaken(index: number, few: number): boolean {
  if (share === 'all') return true
  if (few === Infinity) return share === 'rest'
  if (share === 'fast') return index === 0
  return share === 'rest' ? index % few > 0 : index % few === 0
}

type Event = 'planned' | 'taken' | 'run' | 'passed' | 'skipped'

/** Written at once: a process that dies later has said what it had begun. */
function record(family: string, index: number, event: Event, reason = ''): void {
  if (records === undefined) return
  const line = JSON.stringify([family, index, event, ...(reason === '' ? [] : [reason])])
  appendFileSync(join(records, `${process.pid}.jsonl`), `${line}\n`)
}

type Body = (context: TestContext) => void | Promise<void>

/** Registers the next case as a test, if this run has it, and says whether it does. */
export type Family = (title: string, ...rest: readonly [Body] | readonly [TestOptions, Body]) => boolean

/** A family of cases, one in `few` of which `npm test` runs. Every name is used once. */
export function family(name: string, few: number): Family {
  let cases = 0
  return (title, ...rest) => {
    const index = cases++
    record(name, index, 'planned')
    if (!isTaken(index, few)) return false
    record(name, index, 'taken')
    const [options, body] = rest.length === 2 ? rest : [{}, rest[0]]
    if (options.skip) record(name, index, 'skipped', typeof options.skip === 'string' ? options.skip : 'no reason')
    registered(title, options, async context => {
      record(name, index, 'run')
      await body(context)
      record(name, index, 'passed')
    })
    return true
  }
}

type Test = (...args: readonly unknown[]) => void
const only = (isHere: boolean): typeof registered =>
  ((...args) => isHere && (registered as Test)(...args)) as Test as typeof registered // called, and nothing else

/** A test that `npm test` leaves to the rest. */
export const later = only(share === 'rest' || share === 'all')

/** A test that the rest need not repeat, in a file of which it runs something. */
export const test = only(share !== 'rest')
