/**
 * What crosses the wire in fewer bits: where sums over the data axes are made, and where parameters are gathered. In 16 bits
 * numbers lose digits and nothing else, so the interpreter, which keeps all digits in f64, gives what one rank gives.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { after } from 'node:test'
import { compileJob, serialJob } from '../src/compile/index.js'
import { boot, dataFor, type Runner, roundToBf16, roundToF16 } from '../src/engine/index.js'
import { nativeMissing, Pool, startEngine } from '../src/engine/native/index.js'
import { prepare } from '../src/engine/reference/kernels.js'
import { type Instr, isCollective, type Program, verify } from '../src/ir/index.js'
import { check, type Job, type PlanInput } from '../src/plan/index.js'
import { family, test } from './families.js'
import { readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, optionsOf, titleOf } from './jobs.js'
import { lossBounds } from './recorded.js'

const sixteen: readonly (readonly [ModelName, PlanInput])[] = [
  ['mlp', { dp: 3, microbatches: 2, compress: { reduce: 'bf16' } }],
  ['gpt', { dp: 2, zero: 1, compress: { reduce: 'f16' } }],
  [
    'llama tied',
    { dp: 2, tp: 2, pp: 2, zero: 1, microbatches: 2, compress: { reduce: 'bf16' }, sequenceParallel: true },
  ],
  ['gpt tied', { dp: 4, zero: 2, microbatches: 2, compress: { reduce: 'bf16' } }],
  ['llama', { dp: 2, cp: 2, zero: 3, microbatches: 2, compress: { reduce: 'f16', gather: 'bf16' } }],
  ['gpt', { dp: 3, pp: 2, zero: 3, gather: 'step', reduce: 'step', microbatches: 2, compress: { gather: 'bf16' } }],
  ['latent', { dp: 2, zero: 3, overlap: false, compress: { reduce: 'bf16', gather: 'bf16' } }],
  ['gpt', { dp: 2, zero: 3, precision: 'bf16', compress: { reduce: 'bf16' } }],
]
const tested = family('compression: bf16, f16 and int8', 12)
for (const [model, plan] of sixteen)
  tested(`${model}, ${titleOf(plan)}: computes what one rank computes`, () => {
    const batch = plan.dp === 3 ? { globalBatch: 24 } : {}
    computesWhatOneRankComputes(jobOf(model, plan, batch))
  })

/** What the collectives of a flight carry, by the name of its segment. */
const carried = ({ segments }: Program, flight: string) =>
  Object.values(segments)
    .filter(({ name }) => name.startsWith(`${flight} `))
    .flatMap(({ instrs, buffers }) =>
      instrs.filter(isCollective).map(({ kind, ins }) => `${kind} ${buffers[ins[0]].dtype}`),
    )

test('what is compressed travels in fewer bits, and nothing else does', () => {
  const program = (plan: PlanInput) => compileJob(jobOf('gpt', { dp: 2, ...plan }))
  const distinct = (plan: PlanInput, flight: string) => [...new Set(carried(program(plan), flight))]
  deepEqual(distinct({ compress: { reduce: 'bf16' } }, 'reduce'), ['all-reduce bf16'])
  deepEqual(distinct({ zero: 1, compress: { reduce: 'f16' } }, 'reduce'), ['reduce-scatter f16'])
  deepEqual(distinct({ zero: 1, compress: { reduce: 'f16' } }, 'gather'), ['all-gather f32'])
  deepEqual(distinct({ zero: 3, compress: { gather: 'bf16' } }, 'gather'), ['all-gather bf16'])
  deepEqual(distinct({ zero: 3, compress: { gather: 'bf16' } }, 'reduce'), ['reduce-scatter f32'])
  // Parameters of 16 bits have nothing to lose.
  deepEqual(distinct({ zero: 3, precision: 'bf16', compress: { gather: 'bf16' } }, 'gather'), ['all-gather bf16'])
  deepEqual(
    program({ zero: 3, precision: 'bf16', compress: { gather: 'bf16' } }),
    program({ zero: 3, precision: 'bf16' }),
  )
})

test('check says what changes nothing, and what is unwise', () => {
  const codes = (plan: PlanInput) => check(jobOf('gpt', plan)).map(({ code, path }) => `${code} ${path}`)
  const pure = { dp: 2, precision: 'pure-bf16' as const, compress: { reduce: 'bf16' as const } }
  ok(codes(pure).includes('plan/no-effect plan.compress.reduce'))
  ok(codes({ tp: 2, compress: { reduce: 'f16' } }).includes('plan/no-effect plan.compress'))
  ok(codes({ dp: 2, compress: { reduce: 'f16' } }).includes('plan/unwise plan.compress.reduce'))
  ok(
    codes({ dp: 2, zero: 3, precision: 'bf16', compress: { gather: 'bf16' } }).includes(
      'plan/no-effect plan.compress.gather',
    ),
  )
  deepEqual(codes({ dp: 2, compress: { reduce: 'bf16' } }), [])
})

const pool = new Pool()
after(() => pool.close())

async function losses(runner: Runner, program: Program, job: Job, steps: number): Promise<number[]> {
  const data = dataFor(program, optionsOf(job))
  const found: number[] = []
  for (let step = 0; step < steps; step++)
    found.push((await runner.step({ inputs: data(step), lr: job.training.optimizer.lr, step })).loss)
  return found
}

const inEngine: readonly (readonly [ModelName, PlanInput, 'native' | 'wasm'])[] = [
  ['gpt', { dp: 3, compress: { reduce: 'bf16' } }, 'native'],
  ['llama', { dp: 2, tp: 2, zero: 1, microbatches: 2, compress: { reduce: 'f16' } }, 'native'],
  ['gpt tied', { dp: 2, zero: 3, microbatches: 2, compress: { reduce: 'bf16', gather: 'bf16' } }, 'native'],
  ['gpt', { dp: 2, zero: 2, compress: { reduce: 'bf16' } }, 'wasm'],
  ['llama', { dp: 3, zero: 3, compress: { gather: 'int8', run: 7 } }, 'native'],
  ['gpt', { dp: 2, tp: 2, zero: 3, gather: 'step', precision: 'bf16', compress: { gather: 'int8' } }, 'wasm'],
  ['gpt', { dp: 3, zero: 1, microbatches: 2, compress: { reduce: 'int8', run: 5 } }, 'native'],
  ['llama', { dp: 2, tp: 2, zero: 3, microbatches: 2, compress: { reduce: 'int8', gather: 'int8' } }, 'native'],
  ['mlp', { dp: 2, compress: { reduce: 'int8', run: 4 } }, 'wasm'],
]
for (const [model, plan, kernels] of inEngine)
  tested(
    `${kernels}: ${model}, ${titleOf(plan)}: rounds as the interpreter does, as far from f32 as is said`,
    {
      skip: (kernels === 'native' && nativeMissing()) || false,
    },
    async () => {
      const job = jobOf(model, plan, plan.dp === 3 ? { globalBatch: 24 } : {})
      const { compress: _, ...plain } = serialJob(job, 1).plan
      const [program, serial] = [compileJob(job), compileJob({ ...job, plan: plain })]
      const [engine, machine, one] = [
        await startEngine(program, { seed: 1, kernels, pool, poison: true, timeoutMs: 20_000 }),
        boot(program, { seed: 1, precision: 'f32' }),
        boot(serial, { seed: 1, precision: 'f32' }),
      ]
      try {
        const [ours, theirs] = [await losses(engine, program, job, 4), await losses(machine, program, job, 4)]
        const exact = await losses(one, serial, job, 4)
        for (const [step, loss] of ours.entries()) {
          ok(
            Math.abs(loss / theirs[step] - 1) <= lossBounds[job.plan.precision],
            `step ${step}: ${loss}, interpreted ${theirs[step]}`,
          )
          ok(
            Math.abs(loss / exact[step] - 1) <= (Object.values(plan.compress!).includes('int8') ? 2e-2 : 4e-3),
            `step ${step}: ${loss}, in f32 ${exact[step]}`,
          )
        }
        deepEqual(engine.peaks, machine.peaks)
        for (const { name } of program.params) equal(engine.spread(name), 0, `replicas of ${name} differ`)
      } finally {
        await engine.stop()
      }
    },
  )

const coded: readonly (readonly [ModelName, PlanInput])[] = [
  ['mlp', { dp: 3, zero: 3, compress: { gather: 'int8', run: 5 } }],
  ['gpt', { dp: 2, zero: 3, microbatches: 2, compress: { gather: 'int8', run: 8 } }],
  ['llama', { dp: 2, tp: 2, zero: 3, gather: 'step', compress: { gather: 'int8', run: 3 }, sequenceParallel: true }],
  ['gpt tied', { dp: 2, pp: 2, cp: 2, zero: 3, microbatches: 2, compress: { gather: 'int8', reduce: 'bf16' } }],
  ['latent', { dp: 4, zero: 3, precision: 'bf16', compress: { gather: 'int8', run: 16 } }],
  ['mlp', { dp: 2, compress: { reduce: 'int8', run: 4 } }],
  ['mlp', { dp: 3, zero: 1, microbatches: 2, compress: { reduce: 'int8', run: 5 } }],
  ['gpt', { dp: 2, zero: 2, microbatches: 2, compress: { reduce: 'int8', run: 8 } }],
  ['gpt tied', { dp: 2, microbatches: 2, compress: { reduce: 'int8', run: 8 } }],
  [
    'llama',
    { dp: 2, tp: 2, zero: 3, microbatches: 2, compress: { reduce: 'int8', gather: 'int8' }, sequenceParallel: true },
  ],
  ['llama tied', { dp: 2, tp: 2, pp: 2, zero: 1, microbatches: 2, compress: { reduce: 'int8' } }],
  ['latent', { dp: 4, zero: 3, reduce: 'step', precision: 'bf16', gradients: 'bf16', compress: { reduce: 'int8' } }],
  ['gpt', { dp: 2, pp: 2, zero: 2, microbatches: 4, schedule: 'zb-h1', compress: { reduce: 'int8' }, overlap: false }],
]
for (const [model, plan] of coded)
  tested(`${model}, ${titleOf(plan)}: computes what one rank computes that codes as these ranks do`, () =>
    computesWhatOneRankComputes(jobOf(model, plan, plan.dp === 3 ? { globalBatch: 24 } : {})),
  )

interface Quantised {
  readonly bits: number
  readonly symmetric: boolean
  readonly groups: number
  readonly x: readonly number[]
  readonly codes: readonly number[]
  readonly params: readonly (readonly [unit: number, zero: number])[]
}

test('codes and units are those of the quantiser of ZeRO++, its symmetric 8 bits', () => {
  const { cases } = JSON.parse(readFixture('compression/quantize.json')) as { cases: readonly Quantised[] }
  const symmetric = cases.filter(({ bits, symmetric }) => bits === 8 && symmetric)
  ok(symmetric.length > 0)
  for (const { x, codes, groups, params } of symmetric) {
    const run = x.length / groups
    const shape = (size: number) => ({ dims: [{ name: 'flat', size }], whole: [{ name: 'flat', size }] })
    const kernel = prepare({ kind: 'pack', run, parts: 1 }, [shape(x.length)], [shape(x.length), shape(groups)])
    const cells = Float64Array.from([...x, ...codes, ...params.map(() => 0)])
    const place = (at: number) => ({ at, parts: [] })
    kernel(cells, [place(0)], [place(x.length), place(2 * x.length)], { ...nowhere })
    const made = [...cells.subarray(x.length, 2 * x.length)]
    for (const [g, [unit, zero]] of params.entries()) {
      const values = x.slice(g * run, (g + 1) * run)
      const own = cells[2 * x.length + g]
      equal(zero, 0)
      // Of nothing but zeros they say 1.
      if (values.every(value => value === 0)) equal(unit, 1)
      else ok(Math.abs(own / unit - 1) < 1e-3, `unit ${g}: ${own}, not ${unit}`)
      // Theirs are scaled by a number of f16: only where x over the two units lies on either side of a tie may codes differ.
      for (const [i, value] of values.entries()) {
        const [code, right] = [made[g * run + i], codes[g * run + i]]
        const sides = [own || 1, unit].map(by => Math.min(127, Math.round(value / by)))
        ok(code === right || (sides[0] !== sides[1] && Math.abs(code - right) === 1), `${value}: ${code}, not ${right}`)
      }
    }
  }
})

const nowhere = { seed: 0, step: 0, block: '', microbatch: -1, at: {} }

test('a run with an infinity, or with what is no number, has no number for a unit', () => {
  const shape = (size: number) => ({ dims: [{ name: 'flat', size }], whole: [{ name: 'flat', size }] })
  const pack = prepare({ kind: 'pack', run: 2, parts: 1 }, [shape(6)], [shape(6), shape(3)])
  const unpack = prepare({ kind: 'unpack', run: 2, parts: 1 }, [shape(6), shape(3)], [shape(6)])
  const cells = Float64Array.from([1, -2, Infinity, 1, 0, NaN, ...new Array(9).fill(0)])
  const place = (at: number) => ({ at, parts: [] })
  pack(cells, [place(0)], [place(6), place(12)], nowhere)
  unpack(cells, [place(6), place(12)], [place(0)], nowhere)
  deepEqual([...cells.subarray(0, 6)], [1, -2, NaN, NaN, NaN, NaN])
})

/** A program of which one instruction is another. */
function altered(program: Program, segment: string, change: (instr: Instr) => Instr): Program {
  const found = Object.entries(program.segments).find(([name]) => name.startsWith(segment))!
  const instrs = found[1].instrs.map(change)
  return { ...program, segments: { ...program.segments, [found[0]]: { ...found[1], instrs } } }
}

test('T7: codes only move, and are unpacked as they were packed', () => {
  const program = compileJob(jobOf('mlp', { dp: 2, zero: 3, compress: { gather: 'int8', run: 4 } }))
  deepEqual(verify(program), [])
  const laws = (broken: Program) => [...new Set(verify(broken).map(({ law }) => law))]
  const other = altered(program, 'unpack gather', instr => (instr.kind === 'unpack' ? { ...instr, run: 3 } : instr))
  ok(laws(other).includes('T7'))
  const cut = altered(program, 'unpack gather', instr => (instr.kind === 'unpack' ? { ...instr, parts: 3 } : instr))
  ok(laws(cut).includes('T7'))
  const added = altered(program, 'gather', instr =>
    instr.kind === 'all-gather'
      ? { kind: 'all-reduce', combine: 'sum', ins: instr.ins, outs: instr.outs, group: instr.group }
      : instr,
  )
  ok(laws(added).includes('T7'))
  const read = altered(program, 'unpack gather', instr =>
    instr.kind === 'unpack' ? { kind: 'scale', by: 1, ins: [instr.ins[0]], outs: instr.outs } : instr,
  )
  ok(laws(read).includes('T7'))
})

test('T7: codes of addends go to the owners of their parts, and are unpacked as one line', () => {
  const program = compileJob(jobOf('mlp', { dp: 2, zero: 1, compress: { reduce: 'int8', run: 4 } }))
  deepEqual(verify(program), [])
  const laws = (broken: Program) => [...new Set(verify(broken).map(({ law }) => law))]
  const unpacked = (change: Partial<Instr>) =>
    altered(program, 'unpack reduce', instr => (instr.kind === 'unpack' ? ({ ...instr, ...change } as Instr) : instr))
  ok(laws(unpacked({ parts: 2 } as Partial<Instr>)).includes('T7'))
  ok(laws(unpacked({ run: 3 } as Partial<Instr>)).includes('T7'))
  // Parts that were never sent: every rank has its own addend of everything.
  const unsent = altered(program, 'reduce', instr =>
    instr.kind === 'all-to-all'
      ? { kind: 'all-gather', dim: 'addend', ins: instr.ins, outs: instr.outs, group: instr.group }
      : instr,
  )
  ok(laws(unsent).includes('T2'))
  const crossed = altered(program, 'reduce', instr =>
    instr.kind === 'all-to-all' ? { ...instr, ins: [instr.ins[1], instr.ins[0], ...instr.ins.slice(2)] } : instr,
  )
  ok(verify(crossed).length > 0)
})

test('I2: a gradient that is coded twice, or by another run, is another', () => {
  const job = jobOf('mlp', { dp: 2, microbatches: 2, compress: { reduce: 'int8', run: 4 } })
  const other = { ...job, plan: { ...job.plan, compress: { ...job.plan.compress!, run: 8 } } }
  const serial = compileJob(serialJob(job, 2))
  deepEqual(verify(compileJob(job), serial), [])
  ok(verify(compileJob(other), serial).some(({ law }) => law === 'I1' || law === 'I2'))
  // Only the ZeRO stage of the ranks that are played says whether their sums are coded again.
  const scattered = { ...job, plan: { ...job.plan, zero: 1 as const } }
  ok(verify(compileJob(scattered), serial).some(({ law }) => law === 'I2'))
})

test('sums in codes: check says what they depend on, and where no rank could do the same', () => {
  const said = (plan: PlanInput) => check(jobOf('llama', plan)).map(({ severity, path }) => `${severity} ${path}`)
  deepEqual(said({ dp: 2, compress: { reduce: 'int8' } }), ['warning plan.compress.reduce'])
  ok(said({ dp: 2, cp: 2, compress: { reduce: 'int8' } }).includes('error plan.compress.reduce'))
  ok(
    said({ dp: 2, pp: 2, microbatches: 4, schedule: 'dualpipe', compress: { reduce: 'int8' } }).includes(
      'error plan.compress.reduce',
    ),
  )
})

test('I: what one rank computes that does not code is something else', () => {
  const job = jobOf('mlp', { dp: 2, zero: 3, compress: { gather: 'int8' } })
  const { compress: _, ...plan } = serialJob(job, 1).plan
  ok(verify(compileJob(job), compileJob({ ...job, plan })).some(({ law }) => law === 'I1'))
})

interface Hooks {
  readonly ranks: number
  readonly gradients: readonly (readonly string[])[]
  /** In f32. */
  readonly allreduce: readonly string[]
  readonly fp16: readonly string[]
  readonly bf16: readonly string[]
}

test('sums of 16 bits are those of PyTorch’s hooks to a unit, and finite where theirs overflow before they divide', () => {
  const { cases } = JSON.parse(readFixture('compression/ddp-hooks.json')) as { cases: readonly Hooks[] }
  const numberOf = (bits: string) => new Float32Array(Uint32Array.of(Number.parseInt(bits, 16)).buffer)[0]
  const formats = { fp16: [roundToF16, 2 ** -10, 2 ** -24], bf16: [roundToBf16, 2 ** -7, 2 ** -133] } as const
  let rescued = 0
  for (const { ranks, gradients, allreduce } of cases)
    for (const [i, bits] of allreduce.entries()) {
      const addends = gradients.map(line => Math.fround(numberOf(line[i]) / ranks))
      const [sum, theirs] = [addends.reduce((a, b) => Math.fround(a + b), 0), numberOf(bits)]
      const most = Math.max(...addends.map(Math.abs))
      ok(sum === theirs || Math.abs(sum - theirs) <= 2 ** -22 * most, `f32: ${sum}, not ${theirs}`)
    }
  for (const { ranks, gradients, ...hooks } of cases)
    for (const [name, [round, digits, least]] of Object.entries(formats))
      for (const [i, bits] of hooks[name as keyof typeof formats].entries()) {
        const addends = gradients.map(line => Math.fround(numberOf(line[i]) / ranks))
        const [ours, theirs] = [round(addends.reduce((sum, one) => Math.fround(sum + round(one)), 0)), numberOf(bits)]
        const mean = addends.reduce((sum, one) => sum + one, 0)
        if (!Number.isFinite(theirs) && Math.abs(mean) < 60000) rescued += Number(Number.isFinite(ours))
        else if (Number.isFinite(theirs)) {
          const largest = Math.max(...addends.map(Math.abs))
          ok(Math.abs(ours - theirs) <= ranks * Math.max(digits * largest, least), `${name}: ${ours}, not ${theirs}`)
        }
      }
  ok(rescued > 0)
})
