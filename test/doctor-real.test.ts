/** `doctor` on runs that were really trained: the cause of each sick one is named, healthy ones are left alone. */
import { deepEqual, ok } from 'node:assert/strict'
import { describe } from 'node:test'
import { later } from './families.js'
import { foundIn, healthyRuns, sickRuns } from './real-runs.js'

/** How long ranks take is noise where others use the cores: such causes are looked for where somebody asks for all. */
const timed = ['straggler', 'bubble', 'imbalance', 'dataLoader', 'prediction', 'slowLink', 'network', 'microbatches']
const quiet = process.env.LOCKSTEP_TESTS === 'all'

describe('sick', () => {
  const runs = Object.entries(sickRuns).filter(([, [cause]]) => quiet || !timed.includes(cause))
  for (const [name, [cause, run]] of runs)
    later(name, async () => {
      const findings = await foundIn(run)
      ok(
        findings.some(({ event }) => event === cause),
        JSON.stringify(findings.map(({ event, message }) => [event, message])),
      )
    })
})

describe('healthy', () => {
  const runs = Object.entries(healthyRuns)
  for (const [name, run] of runs)
    later(name, async () =>
      deepEqual(
        (await foundIn(run)).flatMap(({ event, severity, message }) =>
          severity !== 'note' && (quiet || !timed.includes(event)) ? [message] : [],
        ),
        [],
      ),
    )
})
