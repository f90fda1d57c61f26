/** What gradients are summed in, where a plan says so: it changes bytes and digits, and nothing else. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after, test } from 'node:test'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob, serialJob } from '../src/compile/index.js'
import { boot, dataFor, nativeMissing, Pool, startEngine } from '../src/engine/index.js'
import { estimate, placedOf } from '../src/estimate/index.js'
import { bytesPer, type Law, type Program, parse, print, showViolation, verify } from '../src/ir/index.js'
import { check, type PlanInput } from '../src/plan/index.js'
import { computesWhatOneRankComputes, jobOf, optionsOf, titleOf } from './jobs.js'

const pool = new Pool()
after(() => pool.close())

const narrow = { precision: 'bf16', gradients: 'bf16' } as const
const wide = { precision: 'pure-bf16', gradients: 'f32' } as const

for (const plan of [
  { ...narrow, dp: 2, zero: 1, microbatches: 2 },
  { ...narrow, dp: 2, pp: 2, zero: 3, microbatches: 2 },
  { ...wide, dp: 2, tp: 2, zero: 2, sequenceParallel: true },
] as const)
  test(`${titleOf(plan)} computes what one rank computes`, () => computesWhatOneRankComputes(jobOf('gpt tied', plan)))

test('they travel in it, and are added up in it', () => {
  const reducedIn = ({ segments }: Program) => {
    const moved = Object.values(segments).filter(({ phase }) => phase === 'reduce' || phase === 'add')
    const tensors = moved.flatMap(({ buffers }) => Object.values(buffers).filter(({ dims }) => dims.length > 0))
    return [...new Set(tensors.map(({ dtype }) => dtype))]
  }
  const plan = { dp: 2, zero: 2, microbatches: 2 } as const
  deepEqual(reducedIn(compileJob(jobOf('llama', { ...plan, ...narrow }))), ['bf16'])
  deepEqual(reducedIn(compileJob(jobOf('llama', { ...plan, ...wide }))), ['f32'])
})

test('print and parse are inverse, and say it where it is not as the state', () => {
  const text = (plan: PlanInput) => print(compileJob(jobOf('gpt', plan)))
  for (const plan of [narrow, wide]) {
    const program = compileJob(jobOf('gpt', plan))
    deepEqual(parse(print(program)), program)
    ok(text(plan).includes(`  gradient ${plan.gradients}\n`))
  }
  equal(text({ precision: 'bf16', gradients: 'f32' }), text({ precision: 'bf16' }))
})

/** What a program says of its gradients, changed. */
function breaks(law: Law, what: string, edit: (text: string) => string): void {
  test(`[${law}] ${what}`, () => {
    const job = jobOf('gpt', { ...narrow, dp: 2 })
    const [text, serial] = [print(compileJob(job)), compileJob(serialJob(job))]
    const slipped = edit(text)
    ok(slipped !== text, 'nothing to change')
    const found = verify(parse(slipped), serial)
    ok(
      found.some(violation => violation.law === law),
      found.map(showViolation).join('\n') || 'not caught',
    )
  })
}

breaks('T5', 'a gradient that is summed in less than its parameter says', text =>
  text.replace(/^ {2}gradient bf16\n/m, ''),
)
breaks('W1', 'a gradient in what no op makes', text => text.replace(/^ {2}gradient bf16$/m, '  gradient f16'))
breaks('T4', 'an update that reads it in other bits', text =>
  text.replace(/(segment "update layers.mlp.up"[\s\S]*?buffer %grad )bf16/, '$1f16'),
)
breaks('T3', 'a sum wider than its addends', text =>
  text.replace(/(segment layers.B [\s\S]*?buffer %grad.mlp.up )bf16/, '$1f32'),
)

for (const [kernels, plan] of [
  ['native', { ...narrow, dp: 2, zero: 1, microbatches: 2 }],
  ['native', { ...wide, dp: 2, zero: 2 }],
  ['wasm', { ...narrow, dp: 2, zero: 3 }],
] as const)
  test(`${kernels}: ${titleOf(plan)}`, { skip: (kernels === 'native' && nativeMissing()) || false }, async () => {
    const job = jobOf('llama', plan)
    const program = compileJob(job)
    const engine = await startEngine(program, { seed: 1, kernels, pool, observeGradients: true, timeoutMs: 20_000 })
    try {
      const machine = boot(program, { seed: 1, precision: 'f32' })
      const given = { inputs: dataFor(program, optionsOf(job))(0), lr: 1e-3, step: 0 }
      const [ours, theirs] = [await engine.step(given), machine.step(given)]
      ok(Math.abs(ours.loss / theirs.loss - 1) < 1e-2, `${ours.loss} and ${theirs.loss}`)
      for (const { name } of program.params) {
        const [found, wanted] = [engine.gradient(name), machine.gradient(name)]
        const most = Math.max(...wanted.map(Math.abs))
        const off = Math.max(...found.map((value, i) => Math.abs(value - wanted[i])))
        ok(off <= 0.05 * most, `${name}: off by ${off} of ${most}`)
      }
      deepEqual(engine.peaks, machine.peaks)
    } finally {
      await engine.stop()
    }
  })

test('the estimate knows their bytes, and that fewer are sent', () => {
  const priced = (plan: PlanInput) => {
    const job = jobOf('llama', { dp: 8, ...plan })
    return estimate({ ...placedOf(job)!, cluster: clusterOf('h100', 8) })
  }
  const [full, half] = [priced({ precision: 'bf16' }), priced(narrow)]
  equal(half.memory.gradients / full.memory.gradients, bytesPer.bf16 / bytesPer.f32)
  equal(half.memory.optimizer, full.memory.optimizer)
  ok(half.step < full.step, `${half.step} and ${full.step}`)
})

test('many microbatches in bf16 are advised against', () => {
  const advice = (plan: PlanInput) => check(jobOf('gpt', plan, { globalBatch: 256 })).map(({ path }) => path)
  deepEqual(advice({ ...narrow, microbatches: 256 }), ['plan.gradients'])
  deepEqual(advice({ precision: 'bf16', microbatches: 256 }), [])
})
