/** Steps that were timed on one H200 (bench/gpu/predict.py, validation/gpu/h200-steps.json) beside what is predicted. */
import { ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { parse } from 'yaml'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob } from '../src/compile/index.js'
import { Job } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'

const { steps } = JSON.parse(readFileSync('validation/gpu/h200-steps.json', 'utf8')) as {
  steps: Record<string, { seconds: number; peak: number }>
}
/** The catalog's factors for kernels inside a step are from its profile. */
const fitted = 'llama-1b-pure'

for (const [name, measured] of Object.entries(steps).filter(([name]) => name !== fitted))
  test(`${name}: the step within 8 % of the measured one, its memory within 5 %`, () => {
    const program = compileJob(Job.parse(parse(readFileSync(`bench/gpu/jobs/${name}.yaml`, 'utf8'))))
    const { step } = simulate(program, clusterPrices(program, clusterOf('h200', 1)))
    const [time, memory] = [step / measured.seconds - 1, program.streams[0].arena / measured.peak - 1]
    ok(Math.abs(time) <= 0.08, `step ${(100 * time).toFixed(1)} %`)
    ok(Math.abs(memory) <= 0.05, `memory ${(100 * memory).toFixed(1)} %`)
  })
