/** Products on 8 bits: scales and codes as others make them, plans that change no number, laws, prices and what is refused. */
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import { blockDims, codeScale, codeTypes, isCodeType, leastAmax, scaleRules } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { compileJob, serialJob } from '../src/compile/index.js'
import { workOf } from '../src/cost/index.js'
import { boot, dataFor, roundToE4M3, roundToE5M2, startTrainer } from '../src/engine/index.js'
import { type Call, type Instr, type Law, type Program, parse, print, showViolation, verify } from '../src/ir/index.js'
import { check, type JobInput } from '../src/plan/index.js'
import { clusterPrices, simulate } from '../src/simulate/index.js'
import { family, later } from './families.js'
import { isOwnSet, readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, optionsOf, shallow, titleOf } from './jobs.js'
import { runOp } from './tiny.js'

interface Scaling {
  readonly amaxes: readonly number[]
  readonly scales: readonly {
    by: string
    format: string
    pow2: boolean
    eps?: number
    scale: readonly number[]
    inverse?: readonly number[]
  }[]
}

const formats = { f8e4m3: 'e4m3fn', f8e5m2: 'e5m2' } as const

for (const format of codeTypes)
  test(`${format}: scales are those that others take, powers of two or exact`, () => {
    const { amaxes, scales }: Scaling = JSON.parse(readFixture('precision/fp8-scaling.json'))
    const theirs = scales.filter(row => row.format === formats[format])
    if (isOwnSet)
      deepEqual(
        theirs.map(({ by, pow2, eps }) => [by, pow2, eps]),
        [
          ...[false, true].flatMap(pow2 => [0, 1e-4].map(eps => ['TransformerEngine', pow2, eps])),
          ...[false, true].map(pow2 => ['torchao', pow2, undefined]),
        ],
      )
    for (const pow2 of [false, true]) ok(theirs.some(row => row.pow2 === pow2))
    for (const { by, pow2, eps, scale, inverse } of theirs)
      for (const [i, amax] of amaxes.entries()) {
        // What is smaller counts as so much: torchao has 1e-12, TransformerEngine what it is told, we 2^-100.
        const counted = Math.max(Math.fround(amax), by === 'torchao' ? 1e-12 : eps!)
        if (counted < leastAmax) continue
        const ours = codeScale(format, counted, pow2 ? undefined : 'exact')
        equal(ours, scale[i])
        if (inverse) equal(Math.fround(1 / ours), inverse[i])
      }
    for (const rule of [undefined, ...scaleRules]) {
      equal(codeScale(format, 0, rule), codeScale(format, leastAmax, rule))
      for (const none of [Number.POSITIVE_INFINITY, Number.NaN]) equal(codeScale(format, none, rule), 0)
    }
  })

interface Mx {
  readonly shape: readonly [number, number]
  readonly x: string
  readonly cases: readonly {
    readonly mode: 'FLOOR' | 'RCEIL' | 'CEIL' | 'EVEN'
    readonly format: 'e4m3fn' | 'e5m2'
    readonly scales: string
    readonly codes: string
  }[]
}

const bytes = (text: string) => (text.match(/../g) ?? []).map(byte => Number.parseInt(byte, 16))
const float = (word: number) => new Float32Array(Uint32Array.of(word).buffer)[0]

test('scales and codes of MX are those of torchao, in all four modes', () => {
  const { shape, x, cases }: Mx = JSON.parse(readFixture('precision/mx.json'))
  const decoded = JSON.parse(readFixture('precision/float8.json')).formats
  const numbers = (x.match(/.{4}/g) ?? []).map(half => float(Number.parseInt(half, 16) * 2 ** 16))
  const dims = shape.map((size, i) => ({ name: ['row', 'column'][i], size }))
  const blocks = { row: 1, column: 32 }
  ok(cases.length > 0)
  if (isOwnSet) deepEqual(new Set(cases.map(({ mode }) => mode)), new Set(['FLOOR', 'RCEIL', 'CEIL', 'EVEN']))
  for (const { mode, format, scales, codes } of cases) {
    const ours = format === 'e4m3fn' ? 'f8e4m3' : 'f8e5m2'
    const by = scaleRules.find(rule => rule === mode.toLowerCase())
    const counted = blockDims(dims, blocks)
    const [amax] = runOp({ kind: 'absMax', blocks }, [{ dims, values: numbers }], [{ dims: counted, values: [] }])
    const made = { dims: counted, values: [...amax] }
    const [quantized] = runOp(
      { kind: 'quantize', format: ours, blocks, ...(by && { by }) },
      [{ dims, values: numbers }, made],
      [{ dims, values: [] }],
    )
    // Where all is 0 they take the least scale there is.
    const exponents = made.values.map(most => (most === 0 ? 0 : 127 - Math.log2(codeScale(ours, most, by))))
    deepEqual(exponents, bytes(scales), `${mode} ${format}`)
    const round = ours === 'f8e4m3' ? roundToE4M3 : roundToE5M2
    deepEqual(
      [...quantized].map(round),
      bytes(codes).map(code => float(Number.parseInt(decoded[format].decode[code], 16))),
      `${mode} ${format}`,
    )
  }
})

const coded = (values: number[], amax: number) =>
  runOp(
    { kind: 'quantize', format: 'f8e4m3' },
    [
      { dims: [{ name: 'n', size: values.length }], values },
      { dims: [], values: [amax] },
    ],
    [{ dims: [{ name: 'n', size: values.length }], values: [] }],
  )[0]

test('what is out of range becomes the greatest there is, and what is not finite stays so', () => {
  deepEqual([...coded([1, -3, 900, -900], 448)], [1, -3, 448, -448])
  deepEqual([...coded([1, Number.NaN], 1)], [256, Number.NaN])
  ok(Number.isNaN(coded([1, Number.POSITIVE_INFINITY], Number.POSITIVE_INFINITY)[1]))
})

type PlanInput = NonNullable<JobInput['plan']>
const fp8 = { precision: 'bf16', fp8: {} } as const

const tested = family('fp8: current scales', 6)
const plans: readonly (readonly [ModelName, PlanInput])[] = [
  ['llama', { tp: 2, sequenceParallel: true }],
  ['mlp', { dp: 2, tp: 2 }],
  ['gpt', { pp: 2, microbatches: 4, schedule: 'zb-h1' }],
  ['llama tied', { cp: 2, dp: 2, zero: 3, microbatches: 2 }],
  ['gpt tied', { recompute: 'full', tp: 4 }],
  ['latent', { tp: 2, recompute: 'cheap' }],
  ['llama', { cp: 2, attention: 'ring', zero: 1, dp: 2 }],
  ['llama', { cp: 2, attention: 'ulysses', recompute: ['contract'] }],
  ['gpt', { dp: 2, tp: 2, pp: 2, zero: 2, microbatches: 2, recompute: 'selective' }],
  ['llama', { dp: 2, tp: 2, fp8: { scales: 'exact' } }],
]
for (const [model, plan] of plans)
  tested(`${model}: ${titleOf(plan)} on 8 bits computes what one rank computes`, () =>
    computesWhatOneRankComputes(jobOf(model, { ...fp8, ...plan })),
  )

/** Losses of two steps where every number is rounded to what it is stored in. */
function rounded(plan: PlanInput): readonly number[] {
  const job = jobOf('llama', { microbatches: 2, ...plan, ...fp8 }, { clip: undefined })
  const program = compileJob(job)
  const machine = boot(program, { seed: 1, precision: 'f32' })
  const data = dataFor(program, optionsOf(job))
  return [0, 1].map(step => machine.step({ inputs: data(step), lr: 1e-3, step }).loss)
}

test('one scale for a tensor, whoever holds its parts: where no sum has another order, plans change no code', () => {
  const [one, two] = rounded({})
  for (const plan of [{ dp: 2, zero: 3 }, { pp: 2 }, { recompute: 'full' }] as const) {
    const losses = rounded(plan)
    ok(Math.abs(losses[0] / one - 1) < 1e-6, titleOf(plan))
    ok(Math.abs(losses[1] / two - 1) < 2 ** -8, titleOf(plan))
  }
  // A sum in another order may round a code to its neighbour.
  const split = rounded({ tp: 2 })
  ok(split.every((loss, i) => Math.abs(loss / [one, two][i] - 1) < 2 ** -6))
})

const job = jobOf('llama', { tp: 2, dp: 2, sequenceParallel: true, ...fp8 })
const [program, serial] = [compileJob(job), compileJob(serialJob(job))]

test('a program says what it codes, and its text is read back', () => {
  deepEqual(verify(program, serial).map(showViolation), [])
  const text = print(program)
  match(text, /%norm1.amax'1 = all-reduce %norm1.amax over=dp,tp combine=max/)
  match(text, /%norm1.codes'1 = all-gather %norm1.codes over=tp dim=seq/)
  match(text, /scaledContract %\S+ %\S+ %\S+ %\S+ formats=f8e5m2,f8e4m3/)
  deepEqual(parse(text), program)
})

test('embedding, head, norms and attention stay as they are', () => {
  const products = Object.entries(program.segments).flatMap(([name, { instrs }]) =>
    instrs.filter(({ kind }) => kind === 'contract').map(() => name),
  )
  deepEqual(products, ['head.F', 'head.B', 'head.B'])
})

const edited = (segment: string, edit: (instr: Instr) => Instr | readonly Instr[]): Program => {
  const of = program.segments[segment]
  return { ...program, segments: { ...program.segments, [segment]: { ...of, instrs: of.instrs.flatMap(edit) } } }
}
const redeclared = (segment: string, ref: string, dtype: 'f8e4m3' | 'f8e5m2' | 'bf16'): Program => {
  const of = program.segments[segment]
  const buffers = { ...of.buffers, [ref]: { ...of.buffers[ref], dtype } }
  return { ...program, segments: { ...program.segments, [segment]: { ...of, buffers } } }
}

function caught(law: Law, what: string, broken: Program, says: RegExp): void {
  test(`[${law}] ${what}`, () => {
    const found = verify(broken, serial).filter(violation => violation.law === law)
    ok(found.length > 0, verify(broken, serial).map(showViolation).join('\n'))
    match(found.map(showViolation).join('\n'), says)
  })
}

caught(
  'T7',
  'codes are multiplied as if they were numbers',
  edited('layers.F', instr =>
    instr.kind === 'scaledContract' ? { kind: 'contract', ins: instr.ins.slice(0, 2), outs: instr.outs } : instr,
  ),
  /%norm1.codes'1 is f8e4m3, must be/,
)
caught(
  'T7',
  'the scale is that of another tensor',
  edited('layers.F', instr =>
    instr.kind === 'scaledContract' ? { ...instr, ins: [...instr.ins.slice(0, 2), instr.ins[3], instr.ins[2]] } : instr,
  ),
  /was scaled by %norm1.amax'1, not by %attn.q.amax/,
)
caught(
  'T7',
  'a product takes gradients for another format',
  edited('layers.B', instr => (instr.kind === 'scaledContract' ? { ...instr, formats: ['f8e4m3', 'f8e4m3'] } : instr)),
  /is f8e5m2, must be f8e4m3/,
)
caught('T7', 'codes are kept in another format', redeclared('layers.F', 'norm1.codes', 'f8e5m2'), /must be f8e4m3/)
caught(
  'T7',
  'codes are added up',
  edited('layers.F', instr =>
    instr.kind === 'all-gather' && instr.ins[0] === 'norm1.codes'
      ? { kind: 'all-reduce', ins: instr.ins, outs: instr.outs, group: instr.group, combine: 'sum' }
      : instr,
  ),
  /it sums quantized values, %norm1.codes/,
)
caught(
  'T1',
  'every rank scales by the greatest of its own part',
  edited('layers.F', instr =>
    instr.kind === 'quantize' && instr.ins[0] === 'norm1' ? { ...instr, ins: ['norm1', 'norm1.amax'] } : instr,
  ),
  /%norm1.amax is partial on it/,
)
caught(
  'I1',
  'a tensor is scaled by what was greatest in another',
  edited('layers.C', instr =>
    instr.kind === 'quantize' && instr.ins[0] === 'attn.k' ? { ...instr, ins: ['attn.k', "attn.v.amax'1"] } : instr,
  ),
  /computes a value that the single-rank reference does not have/,
)

const isParam = (role: number) => program.segments['layers.C'].roles[role].name.is === 'param'
const firstCoding = ({ steps }: Program['streams'][number]): Call =>
  steps.find((step): step is Call => step.kind === 'call' && step.segment === 'layers.C')!

/** Bits of all parameters after two steps. */
function trained(plan: PlanInput): ReadonlyMap<string, ArrayLike<number>> {
  const job = shallow(jobOf('llama', { dp: 2, microbatches: 2, ...fp8, ...plan }))
  const compiled = compileJob(job)
  const machine = boot(compiled, { seed: 1, precision: 'f32' })
  const data = dataFor(compiled, optionsOf(job))
  for (const step of [0, 1]) machine.step({ inputs: data(step), lr: 1e-3, step })
  return new Map(compiled.params.map(({ name }) => [name, [...machine.parameter(name)]]))
}

for (const recipe of ['current', 'blocks'] as const)
  later(`${recipe}: weights that are coded once a step are as if they were in every call`, () => {
    const plan = { zero: 3, fp8: { recipe, block: 2 } } as const
    deepEqual(trained({ ...plan, gather: 'step' }), trained(plan))
  })

test('weights are coded once a step where they are whole for as long, in every call else: the bits are the same', () => {
  const plan = { zero: 3, fp8: { recipe: 'mx', block: 2 } } as const
  deepEqual(trained({ ...plan, gather: 'step' }), trained(plan))
  const codedIn = (plan: PlanInput) => {
    const { segments, streams } = compileJob(jobOf('llama', { microbatches: 4, ...fp8, ...plan }))
    const codes = Object.values(segments).filter(({ instrs }) =>
      instrs.some(instr => instr.kind === 'quantize' && instr.ins[0] === 'attn.q'),
    )
    const calls = streams[0].steps.filter(
      step => step.kind === 'call' && codes.some(({ name }) => name === step.segment),
    )
    return [codes.map(({ name }) => name).join(), calls.length]
  }
  const layers = compileJob(jobOf('llama', fp8)).blocks.filter(({ kind }) => kind === 'layers').length
  deepEqual(codedIn({ dp: 2, zero: 1 }), ['layers.C', layers])
  deepEqual(codedIn({ dp: 2, zero: 3, gather: 'step' }), ['layers.C', layers])
  deepEqual(codedIn({ dp: 2, zero: 3 }), ['layers.F,layers.B', 8 * layers])
})

caught(
  'L6',
  'weights of a layer are not coded',
  {
    ...program,
    streams: program.streams.map(stream => ({
      ...stream,
      steps: stream.steps.filter(step => !(step.kind === 'call' && step.segment === 'layers.C' && step.block === 1)),
    })),
  },
  /coded@1/,
)
caught(
  'I1',
  'a layer reads codes of the weights of another',
  {
    ...program,
    streams: program.streams.map(stream => ({
      ...stream,
      steps: stream.steps.map(step =>
        step.kind === 'call' && step.segment === 'layers.C' && step.block === 2
          ? { ...step, bind: step.bind.map((frame, i) => (isParam(i) ? firstCoding(stream).bind[i] : frame)) }
          : step,
      ),
    })),
  },
  /layers.1, microbatch 0 computes a value that the single-rank reference does not have/,
)

const wide = { embed: 1024, heads: 8, ffn: 4096, vocab: 8 }
const large = (plan: PlanInput) => {
  const { model, ...rest } = jobOf('llama', { precision: 'bf16', ...plan }, { seq: 2048, globalBatch: 4 })
  return compileJob({ ...rest, model: { ...model, ...wide } })
}

test('products take less time, scaling a pass each, and what is kept for backward takes fewer bytes', () => {
  const cluster = clusterOf('h200', 1)
  const [plain, coded] = [large({}), large({ fp8: {} })]
  const seconds = (of: Program) => simulate(of, clusterPrices(of, cluster)).step
  ok(seconds(coded) < seconds(plain))
  const segment = coded.segments['layers.F']
  const work = (kind: Instr['kind']) =>
    workOf(segment.instrs.find(instr => instr.kind === kind)!, segment, { mesh: coded.mesh })
  const [tokens, width] = [4 * 2048, wide.embed]
  deepEqual(work('absMax'), { kind: 'memory', read: 2 * tokens * width, written: 4, op: 'absMax' })
  const coding = { kind: 'memory', read: 2 * tokens * width + 4, written: tokens * width, op: 'quantize' }
  deepEqual(work('quantize'), coding)
  match(JSON.stringify(work('scaledContract')), /"precision":"fp8"/)
  ok(coded.streams[0].peak.activations < plain.streams[0].peak.activations)
})

test('the engine says that it has no kernels for codes, the interpreter runs them', async () => {
  for (const kernels of ['native', 'wasm'] as const)
    await rejects(startTrainer(program, { kernels, seed: 1 }), /kernels do not support FP8/)
  const reference = await startTrainer(program, { kernels: 'reference', seed: 1 })
  await reference.stop()
})

test('what 8 bits need of the rest of a plan', () => {
  const problems = (plan: PlanInput) =>
    check(jobOf('llama', plan)).flatMap(({ path, severity, message }) =>
      path === 'plan.fp8' ? [`${severity}: ${message}`] : [],
    )
  deepEqual(problems({ precision: 'bf16' }), [])
  match(problems({ fp8: {} })[0], /error: .* precision f32 stores f32/)
  match(problems({ precision: 'f16', fp8: {} })[0], /error: .* stores f16/)
  match(problems(fp8).join('\n'), /warning: embed = 8 is not a multiple of 16/)
})

test('codes are known by their dtype', () => deepEqual(codeTypes.map(isCodeType), [true, true]))
