/** Blocks of numbers that share a scale: codes as others make them, plans that change no number, the law, and what is refused. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Blocks,
  blockDims,
  blocksAlong,
  blocksOfEach,
  type CodeType,
  codeScale,
  type Dim,
  type ScaleRule,
} from '../src/base/index.js'
import { compileEvaluation, compileJob, serialJob } from '../src/compile/index.js'
import { boot, dataFor, roundToE4M3, roundToE5M2 } from '../src/engine/index.js'
import { type Instr, type Law, type Program, parse, print, showViolation, traitsOf, verify } from '../src/ir/index.js'
import { check, type JobInput } from '../src/plan/index.js'
import { family } from './families.js'
import { readFixture } from './fixtures.js'
import { computesWhatOneRankComputes, jobOf, type ModelName, optionsOf, shallow, titleOf } from './jobs.js'
import { runOp } from './tiny.js'

interface Blockwise {
  readonly shape: readonly [number, number]
  readonly tile: readonly [number, number]
  readonly format: 'e4m3fn' | 'e5m2'
  readonly pow2: boolean
  readonly codes: string
  readonly inverseScales: readonly number[]
  readonly columnCodes?: string
  readonly columnInverseScales?: readonly number[]
  readonly x: string
}

const { blockwise }: { blockwise: readonly Blockwise[] } = JSON.parse(readFixture('precision/fp8-scaling.json'))
const { formats } = JSON.parse(readFixture('precision/float8.json')) as {
  formats: Record<string, { decode: readonly string[] }>
}

const numberOf = (bits: number) => new Float32Array(Uint32Array.of(bits).buffer)[0]
const digits = (text: string, each: number) =>
  (text.match(new RegExp(`.{${each}}`, 'g')) ?? []).map(code => Number.parseInt(code, 16))
const decoded = (format: string, codes: string) =>
  digits(codes, 2).map(code => numberOf(Number.parseInt(formats[format].decode[code], 16)))

/** The numbers of the first row of this shape. */
const numbersOf = ({ shape }: Blockwise): number[] => {
  const { x } = blockwise.find(other => other.shape.join() === shape.join() && other.x.startsWith('bf16:'))!
  return digits(x.slice('bf16:'.length), 4).map(code => numberOf(code * 2 ** 16))
}

/** What is greatest in each block, and the codes. */
function blocked(values: number[], dims: readonly Dim[], blocks: Blocks, format: CodeType, by: ScaleRule | undefined) {
  const x = { dims, values }
  const counted = { dims: blockDims(dims, blocks), values: [] }
  const [amax] = runOp({ kind: 'absMax', blocks }, [x], [counted])
  const scales = { ...counted, values: [...amax] }
  const [codes] = runOp({ kind: 'quantize', format, blocks, by }, [x, scales], [{ dims, values: [] }])
  const round = format === 'f8e4m3' ? roundToE4M3 : roundToE5M2
  return { amax, codes: [...codes].map(round) }
}

for (const row of blockwise) {
  const { shape, tile, format, pow2 } = row
  test(`${shape.join('x')} in blocks of ${tile.join('x')} of ${format}${pow2 ? '' : ' with exact scales'} has the codes that TransformerEngine makes`, () => {
    const dims = shape.map((size, i) => ({ name: ['row', 'column'][i], size }))
    const ours = format === 'e4m3fn' ? 'f8e4m3' : 'f8e5m2'
    const along = (dim: Dim) => (tile[0] === 1 ? blocksOfEach([dim]) : blocksAlong([dim], tile[0]))
    const rows = { ...along(dims[0]), ...blocksAlong([dims[1]], tile[1]) }
    const columns = { ...blocksAlong([dims[0]], 128), ...along(dims[1]) }
    const { codes: ofRows, inverseScales, columnCodes, columnInverseScales } = row
    const cuts: (readonly [Blocks, string, readonly number[]])[] = [[rows, ofRows, inverseScales]]
    if (columnCodes && columnInverseScales) cuts.push([columns, turned(columnCodes, shape), columnInverseScales])
    for (const [blocks, codes, inverse] of cuts) {
      const by = pow2 ? undefined : 'exact'
      const made = blocked(numbersOf(row), dims, blocks, ours, by)
      deepEqual(
        made.codes.map(code => code || 0),
        decoded(format, codes).map(code => code || 0),
      )
      // Where all is 0 they scale by 1.
      deepEqual(
        [...made.amax].map((amax, i) => (amax === 0 ? inverse[i] : Math.fround(1 / codeScale(ours, amax, by)))),
        inverse,
      )
      ok(made.amax.some(amax => amax > 0))
    }
  })
}

/** Codes of columns are given column by column. */
function turned(codes: string, [rows, columns]: readonly [number, number]): string {
  const pairs = codes.match(/../g)!
  return Array.from({ length: rows * columns }, (_, i) => pairs[(i % columns) * rows + Math.floor(i / columns)]).join(
    '',
  )
}

test('a block is filled from the last dim on, and holds all of a dim that goes in', () => {
  const dims = [
    { name: 'heads', size: 8 },
    { name: 'headDim', size: 64 },
  ]
  deepEqual(blocksAlong(dims, 128), { heads: 2 })
  deepEqual(blocksAlong(dims, 32), { headDim: 32, heads: 1 })
  deepEqual(blocksAlong(dims, 1024), {})
  deepEqual(blockDims(dims, { heads: 2 }), [{ name: 'heads', size: 4 }])
  deepEqual(blockDims([{ name: 'n', size: 200 }], { n: 128 }), [{ name: 'n', size: 2 }])
})

type PlanInput = NonNullable<JobInput['plan']>
const fp8 = { precision: 'bf16', fp8: { recipe: 'blocks', block: 2 } } as const
const long = { seq: 8, globalBatch: 8 } as const

const tested = family('fp8: block scales', 9)
const plans: readonly (readonly [ModelName, PlanInput])[] = [
  ['llama', { tp: 2, sequenceParallel: true }],
  ['mlp', { dp: 2, tp: 2 }],
  ['gpt', { pp: 2, microbatches: 4, schedule: 'zb-h1' }],
  ['llama tied', { cp: 2, dp: 2, zero: 3, microbatches: 2 }],
  ['gpt tied', { recompute: 'full', tp: 2 }],
  ['latent', { tp: 2, recompute: 'cheap' }],
  ['llama', { cp: 2, attention: 'ring', zero: 1, dp: 2 }],
  ['llama', { cp: 2, attention: 'ulysses', recompute: ['contract'] }],
  ['gpt', { dp: 2, tp: 2, pp: 2, zero: 2, microbatches: 2, recompute: 'selective' }],
  ['llama', { tp: 2, dp: 2, sequenceParallel: true, fp8: { recipe: 'blocks', block: 2, scales: 'exact' } }],
  ['llama', { tp: 2, sequenceParallel: true, fp8: { recipe: 'mx', block: 2 } }],
  ['latent', { tp: 2, microbatches: 2, fp8: { recipe: 'mx', block: 2, scales: 'floor' } }],
  ['gpt', { dp: 2, zero: 3, fp8: { recipe: 'mx', block: 2, scales: 'even' }, recompute: 'full' }],
]
for (const [model, plan] of plans)
  tested(`${model}: ${titleOf(plan)} in blocks computes what one rank computes`, () =>
    computesWhatOneRankComputes(shallow(jobOf(model, { ...fp8, ...plan }, long))),
  )

/** Losses of two steps where every number is rounded to what it is stored in. */
function rounded(plan: PlanInput): readonly number[] {
  const job = shallow(jobOf('llama', { microbatches: 2, ...plan, ...fp8 }, { ...long, clip: undefined }))
  const program = compileJob(job)
  const machine = boot(program, { seed: 1, precision: 'f32' })
  const data = dataFor(program, optionsOf(job))
  return [0, 1].map(step => machine.step({ inputs: data(step), lr: 1e-3, step }).loss)
}

test('no plan changes a scale: where no sum has another order, it changes no code', () => {
  const [one, two] = rounded({})
  for (const plan of [{ dp: 2, zero: 3, recompute: 'full' }, { cp: 2 }] as const) {
    const losses = rounded(plan)
    ok(Math.abs(losses[0] / one - 1) < 1e-6, titleOf(plan))
    ok(Math.abs(losses[1] / two - 1) < 2 ** -8, titleOf(plan))
  }
})

const job = shallow(jobOf('llama', { tp: 2, dp: 2, sequenceParallel: true, ...fp8 }, long))
const [program, serial] = [compileJob(job), compileJob(serialJob(job))]

test('scales are split as what they scale is, nobody agrees on them, and the text is read back', () => {
  deepEqual(verify(program, serial).map(showViolation), [])
  const text = print(program)
  match(text, /%norm1.amax = absMax %norm1 blocks=batch:1,seq:1,embed:2/)
  match(text, /all-gather %norm1.amax over=tp dim=seq/)
  match(text, /scaledContract .* formats=f8e4m3,f8e4m3 blocks=batch:1,seq:1,embed:2\/embed:2,ffn:2/)
  equal(/all-reduce %\S*amax/.test(text), false)
  equal(/f8e5m2/.test(text), false)
  deepEqual(parse(text), program)
})

test('an evaluation makes no codes for gradients', () => {
  const evaluation = compileEvaluation(job)
  const { instrs } = evaluation.segments['layers.F']
  const made = instrs.flatMap(instr => (instr.kind === 'quantize' ? instr.outs : []))
  const read = instrs.flatMap(instr => traitsOf(instr).reads)
  ok(made.length > 0)
  deepEqual(
    made.filter(codes => !read.includes(codes)),
    [],
  )
})

const edited = (segment: string, edit: (instr: Instr) => Instr | readonly Instr[]): Program => {
  const of = program.segments[segment]
  return { ...program, segments: { ...program.segments, [segment]: { ...of, instrs: of.instrs.flatMap(edit) } } }
}

function caught(law: Law, what: string, broken: Program, says: RegExp): void {
  test(`[${law}] ${what}`, () => {
    const found = verify(broken, serial).filter(violation => violation.law === law)
    match(found.map(showViolation).join('\n'), says)
  })
}

const withBlocks = (kind: 'absMax' | 'quantize', blocks: Blocks) =>
  edited('layers.F', instr => (instr.kind === kind && instr.ins[0] === 'norm1' ? { ...instr, blocks } : instr))

caught(
  'B1',
  'a split cuts blocks',
  withBlocks('absMax', { batch: 1, seq: 3, embed: 2 }),
  /runs of 4 of seq .* blocks of 3/,
)
caught(
  'B1',
  'as it is coded',
  withBlocks('quantize', { batch: 3, seq: 1, embed: 2 }),
  /of batch per rank, which splits blocks of 3/,
)
caught(
  'T3',
  'another block than its scale has',
  withBlocks('quantize', { batch: 1, seq: 1, embed: 4 }),
  /4 elements along embed, but blocks of 4 in 8 need 2/,
)
caught(
  'T3',
  'blocks of a dim that is not there',
  withBlocks('quantize', { batch: 1, seq: 1, ffn: 2 }),
  /norm1.amax has dims/,
)
caught(
  'T7',
  'codes in blocks along tokens are read with the scales of rows',
  edited('layers.F', instr =>
    instr.kind === 'scaledContract' ? { ...instr, ins: [...instr.ins.slice(0, 2), instr.ins[3], instr.ins[2]] } : instr,
  ),
  /was scaled by/,
)
test('splits that would cut a block are refused, with the sizes that would not', () => {
  const problems = (plan: PlanInput, training = {}) =>
    check(jobOf('llama', { precision: 'bf16', ...plan }, training)).flatMap(
      ({ path, severity, message, suggestion }) =>
        path.startsWith('plan.fp8') && severity === 'error' ? [`${message}; ${suggestion}`] : [],
    )
  const blocks = (block: number) => ({ fp8: { recipe: 'blocks', block } as const })
  deepEqual(problems({ tp: 2, ...blocks(4) }), [])
  match(problems({ tp: 4, ...blocks(4) })[0], /ffn 8 \/ \(tp 4\) = 2 is not a multiple of 4.*try ffn 16/)
  match(problems({ cp: 2, ...blocks(2) })[0], /seq 4 \/ \(2 x cp 2\) = 1 is not a multiple of 2.*try seq 8/)
  match(problems({ tp: 2, sequenceParallel: true, ...blocks(3) })[0], /seq 4 \/ \(tp 2\) = 2 is not a multiple of 3/)
  // All of a dim in one block: its ranks agree on what is greatest.
  deepEqual(problems({ tp: 2, sequenceParallel: true, ...blocks(128) }), [])
})
