/** What is found out about a run: events in metrics.jsonl, and run folders as they are read. */
import { deepEqual, equal, throws } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memoryFiles } from '../src/base/memory-files.js'
import { type HealthEvent, readRun, showEvent } from '../src/health/index.js'

const slow: HealthEvent = {
  ...{
    step: 12,
    event: 'straggler',
    severity: 'warning',
    rank: 3,
    where: 'stage 1',
    message: 'computes 1.3 times as long',
  },
  ...{ numbers: { factor: 1.3 }, advice: 'look at its host', command: 'lockstep doctor run' },
}

function folder(metrics: string, others: Readonly<Record<string, string>> = {}) {
  const files = memoryFiles()
  files.write('run/metrics.jsonl', metrics)
  for (const [name, text] of Object.entries(others)) files.write(`run/${name}`, text)
  return readRun('run', files)
}

describe('events', () => {
  test('on a line', () => {
    equal(
      showEvent(slow),
      'warning at step 12, rank 3 (stage 1): computes 1.3 times as long; look at its host (lockstep doctor run) [straggler]',
    )
    equal(
      showEvent({ step: 0, event: 'restart', severity: 'note', message: 'again', numbers: {} }),
      'note: again [restart]',
    )
  })

  test('are read back as they were written', () => deepEqual(folder(JSON.stringify(slow)).events, [slow]))
})

describe('a run folder', () => {
  const line = (step: number, more = '') => `{"step":${step},"loss":2.5,"seconds":0.1${more}}\n`

  test('lines of others and one that is cut off are left out', () => {
    const metrics = `${line(1)}\n[1]\n"x"\nnull\n{"step":"2"}\n{"event":"aliens","step":1}\n${line(2)}{"step":3,"lo`
    deepEqual(
      folder(metrics).steps.map(({ step }) => step),
      [1, 2],
    )
    deepEqual(folder(metrics).events, [])
  })

  test('fields of a step that are of another kind are left out, and so is a step of no time', () => {
    const alien = {
      lr: {},
      checkpoint: 5,
      shares: { compute: 'all' },
      ranks: { compute: [1] },
      evalLoss: null,
      dead: 1,
    }
    const [step, ...others] = folder(
      `{"step":1,"loss":2,"seconds":-1}\n${line(2, `,${JSON.stringify({ ...alien, taken: 2, own: 'x' }).slice(1, -1)}`)}`,
    ).steps
    deepEqual(others, [])
    deepEqual(step, { step: 2, loss: 2.5, seconds: 0.1, evalLoss: Number.NaN, taken: 2, own: 'x' })
  })

  test('a step that was taken again counts once, as it was the last time', () => {
    const { steps } = folder(`${line(1)}${line(2, ',"taken":2')}${line(3)}${line(2, ',"taken":9')}`)
    deepEqual(
      steps.map(({ step, taken }) => [step, taken]),
      [
        [1, undefined],
        [2, 9],
        [3, undefined],
      ],
    )
  })

  test('a loss that JSON cannot say is not finite', () => {
    const [{ loss, gradientNorm }] = folder('{"step":1,"loss":null,"gradientNorm":null,"seconds":1}').steps
    deepEqual([loss, gradientNorm], [Number.NaN, Number.NaN])
  })

  test('says what ran, where it says so', () => {
    const info = { format: 'lockstep-run-1', run: 'a', started: '', software: 'emitted', world: 4, host: 'h' }
    deepEqual(folder('', { 'about.json': JSON.stringify(info), 'job.json': '{"plan":{}}' }).info, info)
    equal(folder('', { 'about.json': '{"format":"lockstep-run-2"}' }).info, undefined)
  })

  test('another folder is refused', () => {
    throws(() => readRun('nowhere', memoryFiles()), /nowhere does not exist; pass a folder/)
  })
})
