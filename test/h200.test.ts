/** Steps that were timed on one H200 (bench/gpu/predict.py, validation/gpu/h200-steps.json) beside what is predicted. */
import { ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parse } from 'yaml'
import { mean } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { heldBytes } from '../src/emit/index.js'
import { Job } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'

interface Measured {
  readonly job: string
  readonly seconds: number
  /** Bytes of tensors at once. */
  readonly peak: number
}

/** Jobs that were known when prices were made, those drawn after they were frozen, and those of kinds that neither has. */
const measured = JSON.parse(readFileSync('validation/gpu/h200-steps.json', 'utf8')) as Record<
  'known' | 'drawn' | 'others',
  readonly Measured[]
>

function errorsOf({ job, seconds, peak }: Measured) {
  const program = compileJob(Job.parse(parse(readFileSync(`bench/gpu/${job}`, 'utf8'))))
  const { step } = simulate(program, clusterPrices(program, clusterOf('h200', 1)))
  return { time: step / seconds - 1, memory: heldBytes(program)[0] / peak - 1 }
}

const percent = (error: number): string => `${(100 * error).toFixed(1)} %`

for (const which of ['known', 'drawn'] as const) {
  const rows = measured[which]
  const times: number[] = []
  for (const row of rows)
    test(`${row.job}: the step within 8 % of the measured one, its memory within 3 %`, () => {
      const { time, memory } = errorsOf(row)
      times.push(Math.abs(time))
      ok(Math.abs(time) <= 0.08, `step ${percent(time)}`)
      ok(Math.abs(memory) <= 0.03, `memory ${percent(memory)}`)
    })
  test(`${rows.length} ${which} jobs: steps within 4 % on average`, () => {
    ok(times.length === rows.length && mean(times) <= 0.04, percent(mean(times)))
  })
}

test(`${measured.others.length} jobs of other kinds: steps within 7 % on average and 12 % at the worst, memory within 2 and 9 %`, () => {
  const errors = measured.others.map(errorsOf)
  const [times, memories] = (['time', 'memory'] as const).map(key => errors.map(each => Math.abs(each[key])))
  ok(mean(times) <= 0.07 && Math.max(...times) <= 0.12, `${percent(mean(times))}, ${percent(Math.max(...times))}`)
  ok(
    mean(memories) <= 0.02 && Math.max(...memories) <= 0.09,
    `${percent(mean(memories))}, ${percent(Math.max(...memories))}`,
  )
})
