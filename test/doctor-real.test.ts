/** `doctor` on runs that were really trained: the cause of each sick one is named, healthy ones are left alone. */
import { deepEqual, ok } from 'node:assert/strict'
import { describe } from 'node:test'
import { foundIn, healthyRuns, sickRuns } from './real-runs.js'
import { oneIn } from './share.js'

/** How long ranks take is noise where others use the cores: such causes are looked for where somebody asks for all. */
const timed = ['straggler', 'bubble', 'imbalance', 'dataLoader', 'prediction', 'slowLink', 'network', 'microbatches']
const quiet = process.env.LOCKSTEP_TESTS === 'all'

describe('sick', () => {
  const testSome = oneIn(5, 2)
  for (const [name, [cause, run]] of Object.entries(sickRuns))
    if (quiet || !timed.includes(cause))
      testSome(name, async () => {
        const findings = await foundIn(run)
        ok(
          findings.some(({ event }) => event === cause),
          JSON.stringify(findings.map(({ event, message }) => [event, message])),
        )
      })
})

describe('healthy', () => {
  const testSome = oneIn(7, 3)
  for (const [name, run] of Object.entries(healthyRuns))
    testSome(name, async () =>
      deepEqual(
        (await foundIn(run)).flatMap(({ event, severity, message }) =>
          severity !== 'note' && (quiet || !timed.includes(event)) ? [message] : [],
        ),
        [],
      ),
    )
})
