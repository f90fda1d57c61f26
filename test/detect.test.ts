/** What is unusual about a run is found in the lines of its steps, within 20 of them, and nothing in those of a healthy one. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { bestMove, foundIn, type RunFacts, type StepLine, watchRun } from '../src/health/index.js'
import type { Job } from '../src/plan/index.js'
import { jobOf } from './jobs.js'

/** A little noise, the same each time. */
const noise = (step: number, rank = 0): number => 1 + 0.03 * Math.sin(12.9898 * step + 78.233 * rank)

const factsOf = (job: Job): RunFacts => ({ path: 'run', job, mesh: compileJob(job).mesh })

/** Ranks that are busy for so long, and wait for the last. */
function stepsOf(
  busy: readonly number[],
  more: (step: number) => Partial<StepLine> = () => ({}),
  steps = 20,
): StepLine[] {
  return Array.from({ length: steps }, (_, i): StepLine => {
    const own = busy.map((time, rank) => time * noise(i, rank))
    const most = Math.max(...own)
    const late = own.map(time => (time === most ? own.reduce((sum, other) => sum + most - other, 0) : 0))
    const waiting = own.map(time => most - time)
    const ranks = { seconds: most, compute: own, busy: own, network: { dp: own.map(() => 0.01) }, waiting, late }
    return { step: i + 1, loss: 3 - i / 100, gradientNorm: 1, lr: 1e-3, seconds: most, ranks, ...more(i + 1) }
  })
}

const found = (job: Job, lines: readonly StepLine[]) => foundIn(watchRun(factsOf(job)), lines)
const names = (events: ReturnType<typeof found>): string[] =>
  events.map(({ event, rank, where }) =>
    [event, ...(rank === undefined ? [] : [rank]), ...(where ? [where] : [])].join(' '),
  )

const grid = jobOf('gpt', { dp: 2, tp: 2 })

describe('ranks', () => {
  test('a healthy run has none', () => deepEqual(found(grid, stepsOf([1, 1, 1, 1], undefined, 100)), []))

  test('one that takes 1.3 times as long is named within 20 steps, once', () => {
    const events = found(grid, stepsOf([1, 1, 1.3, 1], undefined, 100))
    deepEqual(names(events), ['straggler 2'])
    equal(events[0].step <= 20, true)
    match(events[0].message, /compute time is 1\.[23]\d* times that of ranks/)
  })

  test('one that is slow now and then is not', () => {
    const lines = stepsOf([1, 1, 1, 1]).map((line, i) => (i % 2 === 0 ? line : stepsOf([1, 1, 1.3, 1])[i]))
    deepEqual(found(grid, lines), [])
  })

  test('one whose core others use now and then is not: its best steps are as good as others', () => {
    const stolen = [1.4, 1.35, 1.5, 1.3, 1.45, 1.02, 1.4, 1.3, 1.5, 1.35, 1.4, 1.01]
    const lines = stolen.flatMap((_, i) => stepsOf([1, 1, stolen[i], 1], undefined, 60).slice(5 * i, 5 * i + 5))
    const turns = Array.from({ length: 60 }, (_, i) => stepsOf([1, 1, stolen[i % 12], 1], undefined, 60)[i])
    deepEqual(found(grid, turns), [])
    equal(names(found(grid, lines)).includes('straggler 2'), true, 'the same times in runs of five are')
  })

  test('all of them slower than predicted', () => {
    const prediction = { cluster: 'h100', seconds: 1, stages: [1], network: {} }
    const events = foundIn(watchRun({ ...factsOf(grid), prediction }), stepsOf([1.4, 1.4, 1.4, 1.4]))
    deepEqual(names(events), ['prediction compute'])
  })

  test('a slow link is that of the ranks whose collectives take long', () => {
    const network = { dp: [0.3, 0.1, 0.3, 0.1] }
    const lines = stepsOf([1, 1, 1, 1]).map(line => ({ ...line, ranks: { ...line.ranks!, network } }))
    deepEqual(names(found(grid, lines)), ['slowLink dp ranks 0, 2'])
  })
})

describe('stages', () => {
  const job = (layers: number[]) => {
    const { model, ...rest } = jobOf('gpt', { pp: 4, microbatches: 4, layers })
    return { ...rest, model: { ...model, layers: 16 } }
  }

  test('one layer too many is named with the move that helps', () => {
    const events = found(job([4, 5, 3, 4]), stepsOf([4, 5, 3, 4]))
    deepEqual(names(events), ['imbalance stage 1'])
    match(events[0].message, /move one layer from stage 1 to 2: -(19|20) %/)
    equal(events[0].advice, 'plan.layers: [4, 4, 4, 4]')
  })

  test('even ones are left alone', () => deepEqual(found(job([4, 4, 4, 4]), stepsOf([4, 4, 4, 4.2])), []))

  test('what a layer takes is known beside embedding and head', () =>
    deepEqual(bestMove([5, 4, 6], [4, 4, 5]), { from: 2, to: 1, layers: [4, 5, 4], gain: 0.141 }))
})

describe('learning', () => {
  test('a loss that rises and stays there diverges', () => {
    const lines = stepsOf(
      [1],
      step => ({ loss: step < 30 ? 3 - step / 30 : 2 + (step - 30) / 20, gradientNorm: 1 }),
      60,
    )
    equal(names(found(jobOf('gpt', {}), lines)).at(-1), 'diverges')
  })

  test('a scale at its minimum is stuck', () => {
    const job = jobOf('gpt', {})
    const training = {
      ...job.training,
      lossScale: { kind: 'megatron', initial: 4, min: 1, growth: 2, backoff: 0.5, interval: 1000, hysteresis: 1 },
    } as const
    deepEqual(
      names(
        found(
          { ...job, training },
          stepsOf([1], () => ({ scale: 1 }), 40),
        ),
      ),
      ['scaleStuck'],
    )
    deepEqual(
      names(
        found(
          { ...job, training },
          stepsOf([1], () => ({ scale: 4 }), 40),
        ),
      ),
      [],
    )
  })
})

describe('data', () => {
  test('samples that come again', () =>
    deepEqual(
      names(
        found(
          grid,
          stepsOf([1, 1, 1, 1], () => ({ repeated: 2, globalBatch: 8 })),
        ),
      ),
      ['dataRepeats'],
    ))

  test('a fifth pass over it', () =>
    deepEqual(
      names(
        found(
          grid,
          stepsOf([1, 1, 1, 1], step => ({ cursor: { samples: step, epoch: step >> 2 } })),
        ),
      ),
      ['dataRepeats epochs'],
    ))

  test('a loader that ranks wait for', () =>
    deepEqual(
      names(
        found(
          grid,
          stepsOf([1, 1, 1, 1], () => ({ loading: 0.4 })),
        ),
      ),
      ['dataLoader'],
    ))
})
