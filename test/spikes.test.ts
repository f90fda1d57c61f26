/** Spikes are found where they were put, and nowhere else (test/fixtures/robust). */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { type Norms, noNorms } from '../src/base/index.js'
import { foundIn, normsAfter, type StepLine, squaredNormLimit, watchSpikes } from '../src/health/index.js'
import { logarithm, power } from '../src/health/norm-limit.js'
import { fixturePath, readFixture } from './fixtures.js'
import { findPython, noPython } from './python.js'

interface Series {
  readonly name: string
  readonly loss: readonly (number | null)[]
  readonly norm: readonly number[]
}

/** Verdicts of other detectors on a series, a digit for each step. */
interface Judged extends Series {
  /** llm.c: how many deviations the loss is from the mean, both with it in them. */
  readonly zOfLoss: readonly (number | null)[]
  /** OLMo-core: 1 where the step is taken. */
  readonly olmoGoes: string
  /** Megatron-LM: 1 where the norm is unexpectedly large. */
  readonly megatronLargeNorm: string
}

const { cases }: { cases: Judged[] } = JSON.parse(readFixture('robust/spikes.json'))

/** Numbered as in the file, from 0. */
const spikesOf = ({ loss, norm }: Series): number[] => {
  const lines = loss.map(
    (value, step): StepLine => ({ step, loss: value ?? Number.NaN, gradientNorm: norm[step], seconds: 1 }),
  )
  return [...new Set(foundIn(watchSpikes(), lines).map(({ step }) => step))]
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]

/**
 * Where spikes were put (norm x 12), as one sees who also knows what comes after; and where a norm of x 3 may go either way.
 * A loss that is no number is a spike of which the norm shows nothing.
 */
function putIn({ loss, norm }: Series) {
  const above = norm.map((value, step) => {
    const around = norm.slice(Math.max(0, step - 8), step + 9).filter((_, i) => i !== Math.min(step, 8))
    return value / median(around)
  })
  const steps = (holds: (step: number) => boolean) => [...norm.keys()].filter(holds)
  return {
    norms: steps(step => above[step] > 6),
    all: steps(step => above[step] > 6 || loss[step] === null),
    either: new Set(steps(step => above[step] > 2 && above[step] <= 6)),
  }
}

for (const one of cases) {
  const { all, either } = putIn(one)
  test(`${one.name}: ${all.join(' ') || 'none'}`, () => {
    deepEqual(
      spikesOf(one).filter(step => !either.has(step)),
      all,
    )
  })
}

const window = 128
const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length
function deviation(values: readonly number[], less = 0): number {
  const center = mean(values)
  return Math.sqrt(values.reduce((sum, value) => sum + (value - center) ** 2, 0) / (values.length - less))
}
const digits = (holds: readonly boolean[]): string => holds.map(Number).join('')

for (const { name, loss, norm, zOfLoss, olmoGoes, megatronLargeNorm } of cases)
  test(`${name}: the verdicts of llm.c, OLMo-core and Megatron-LM are those of their formulas`, () => {
    const losses = loss.map(value => value ?? Number.NaN)
    for (const [step, value] of losses.entries()) {
      const held = losses.slice(Math.max(0, step + 1 - window), step + 1)
      const z = step < window ? Number.NaN : (value - mean(held)) / deviation(held)
      if (Number.isNaN(z)) equal(zOfLoss[step], null)
      else ok(zOfLoss[step] !== null && Math.abs(z - zOfLoss[step]) < 1e-6, `${step}: ${z}, not ${zOfLoss[step]}`)
    }
    const isUsual = (values: readonly number[], step: number) => {
      const past = values.slice(Math.max(0, step - window), step)
      return values[step] - mean(past) <= 6 * deviation(past, 1)
    }
    const goes = losses.map((_, step) => step < window / 2 || (isUsual(losses, step) && isUsual(norm, step)))
    equal(digits(goes), olmoGoes)
    const most = Math.max(...norm.slice(0, 100))
    equal(digits(norm.map((value, step) => step >= 100 && value > 10 * most)), megatronLargeNorm)
  })

/** Of norms alone, as a run that skips spikes judges them. */
function skippedOf({ norm }: Pick<Series, 'norm'>): number[] {
  let norms: Norms = noNorms
  return norm.flatMap((value, step) => {
    const [square, limit] = [Math.fround(value * value), squaredNormLimit(norms)]
    norms = normsAfter(norms, square, { limit, taken: square < limit })
    return square < limit ? [] : [step]
  })
}

for (const one of cases)
  test(`${one.name}: skipped are the same where the norm shows it`, () => {
    const { norms, either } = putIn(one)
    deepEqual(
      skippedOf(one).filter(step => !either.has(step)),
      norms,
    )
  })

/** The limits of all steps of the fixtures, in bits, as emitted programs find them. */
const limitsThere = `
import json, struct, sys
sys.path.insert(0, "src/emit/runtime")
from spikes import GradNormHistory
for case in json.load(open(sys.argv[1]))["cases"]:
    norms = GradNormHistory()
    for norm in case["norm"]:
        square = struct.unpack("f", struct.pack("f", norm * norm))[0]
        limit = norms.limit()
        print(struct.pack(">d", limit).hex())
        norms.record(square, limit, square < limit)
`

const bitsOf = (value: number): string => {
  const bits = new DataView(new ArrayBuffer(8))
  bits.setFloat64(0, value)
  return bits.getBigUint64(0).toString(16).padStart(16, '0')
}

const python = findPython()
test('emitted programs find the same limits, to the bit', { skip: python ? false : noPython }, () => {
  const here = cases.flatMap(({ norm }) => {
    let norms: Norms = noNorms
    return norm.map(value => {
      const [square, limit] = [Math.fround(value * value), squaredNormLimit(norms)]
      norms = normsAfter(norms, square, { limit, taken: square < limit })
      return bitsOf(limit)
    })
  })
  deepEqual(
    execFileSync(python!, ['-c', limitsThere, fixturePath('robust/spikes.json')], { encoding: 'utf8' })
      .trim()
      .split('\n'),
    here,
  )
})

test('a norm that stays where it rose to is taken from the fourth step on', () => {
  const norm = Array.from({ length: 100 }, (_, i) => (i < 50 ? 1 : 20) + 0.01 * Math.sin(i * i))
  deepEqual(skippedOf({ norm }), [50, 51, 52])
})

test('logarithms and powers made of sums are those of libraries', () => {
  for (const x of [1e-300, 1e-9, 0.5, 0.74, 1, 1.4, 1.5, 3, 12345.678, 1e30]) {
    const [log, back] = [logarithm(x), power(logarithm(x))]
    ok(Math.abs(log - Math.log(x)) <= 4e-16 * Math.max(1, Math.abs(log)), `ln ${x} = ${log}`)
    ok(Math.abs(back - x) < 2e-13 * x, `e^ln ${x} = ${back}`)
  }
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
