/** Products of experts on 8 bits: plans that change no number, the laws, what is kept, and what is refused. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { compileJob, serialJob } from '../src/compile/index.js'
import { workOf } from '../src/cost/index.js'
import { type Instr, type Law, type Program, parse, print, showViolation, verify } from '../src/ir/index.js'
import { check, Job, type JobInput } from '../src/plan/index.js'
import { expertModels } from './expert-models.js'
import { family, test } from './families.js'
import { computesWhatOneRankComputes, titleOf } from './jobs.js'

type PlanInput = NonNullable<JobInput['plan']>

const jobOf = (model: keyof typeof expertModels, plan: PlanInput): Job =>
  Job.parse({
    model: expertModels[model],
    training: { seq: 8, globalBatch: 8, clip: 0.5 },
    plan: { precision: 'bf16', fp8: { experts: true }, ...plan },
  })

const tested = family('fp8: experts', 8)
const plans: readonly (readonly [keyof typeof expertModels, PlanInput])[] = [
  ['deepseek', { dp: 4, ep: 2, microbatches: 2 }],
  ['mixtral', { tp: 2, etp: 2 }],
  ['mixtral', { dp: 2, tp: 2, ep: 4, zero: 1 }],
  ['deepseek', { dp: 2, ep: 2, zero: 3, recompute: 'full' }],
  ['mixtral', { dp: 2, ep: 2, pp: 2, microbatches: 2, fp8: { recipe: 'delayed', history: 2, experts: true } }],
  ['deepseek', { dp: 2, tp: 2, ep: 2, fp8: { recipe: 'delayed', history: 2, experts: true } }],
  ['mixtral', { dp: 2, ep: 2, microbatches: 2, fp8: { recipe: 'blocks', block: 2, experts: true } }],
  ['deepseek', { tp: 2, etp: 2, fp8: { recipe: 'blocks', block: 2, scales: 'exact', experts: true } }],
  ['mixtral', { dp: 2, ep: 2, fp8: { recipe: 'mx', block: 2, scales: 'floor', experts: true }, recompute: 'cheap' }],
  ['mixtral', { cp: 2, dp: 2, ep: 2, fp8: { scales: 'exact', experts: true } }],
]
for (const [model, plan] of plans)
  tested(`${model}: ${titleOf(plan)} with experts on 8 bits computes what one rank computes`, () =>
    computesWhatOneRankComputes(jobOf(model, plan)),
  )

const job = jobOf('mixtral', { dp: 2, tp: 2, ep: 2, etp: 2 })
const [program, serial] = [compileJob(job), compileJob(serialJob(job))]

test('one scale for the rows of all ranks and the weights of all experts, and the text is read back', () => {
  deepEqual(verify(program, serial).map(showViolation), [])
  const text = print(program)
  match(text, /%rows.amax'1 = all-reduce %rows.amax over=\S*dp\S* combine=max/)
  match(text, /%weighted.amax'1 = all-reduce %weighted.amax over=\S*dp\S*,\S+ combine=max/)
  match(text, /scaledExpertContract %rows.codes %\S+ %\S+.codes %\S+ %\S+ formats=f8e4m3,f8e4m3/)
  match(text, /scaledExpertWeightGrad %\S+ %\S+ %\S+ %\S+ %\S+ formats=f8e4m3,f8e5m2/)
  equal(/= expert(Contract|WeightGrad)/.test(text), false)
  deepEqual(parse(text), program)
})

test('of blocks, rows are cut along what is summed alone: the gradients of weights read no codes', () => {
  const blocks = compileJob(jobOf('mixtral', { dp: 2, ep: 2, fp8: { recipe: 'blocks', block: 2, experts: true } }))
  const text = print(blocks)
  match(text, /scaledExpertContract .* blocks=row:1,embed:2\/expert:1,embed:2,expertFfn:2/)
  match(text, /= expertWeightGrad/)
  equal(/all-reduce %(rows|weighted)\S*amax/.test(text), false)
})

test('codes are kept in place of rows, and products whose operands are both E4M3 are priced as such', () => {
  const plain = compileJob({ ...job, plan: { ...job.plan, fp8: { ...job.plan.fp8!, experts: false } } })
  ok(program.streams[0].peak.activations < plain.streams[0].peak.activations)
  const works = ['routed.F', 'routed.B'].flatMap(name => {
    const segment = program.segments[name]
    const products = segment.instrs.filter(instr => instr.kind.startsWith('scaledExpert'))
    return products.map(instr => workOf(instr, segment, { mesh: program.mesh }))
  })
  const precisions = works.map(work => (work.kind === 'matmul' ? work.precision : ''))
  deepEqual(precisions, ['fp8', 'fp8', 'fp8', 'bf16', 'bf16', 'bf16', 'bf16', 'bf16', 'bf16'])
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

caught(
  'T7',
  'rows are read with the scale of weights',
  edited('routed.F', instr =>
    instr.kind === 'scaledExpertContract'
      ? { ...instr, ins: [...instr.ins.slice(0, 3), instr.ins[4], instr.ins[3]] }
      : instr,
  ),
  /%rows.codes was scaled by %rows.amax'1, not by/,
)
caught(
  'T7',
  'a product takes gradients for another format',
  edited('routed.B', instr =>
    instr.kind === 'scaledExpertContract' ? { ...instr, formats: ['f8e4m3', 'f8e4m3'] } : instr,
  ),
  /is f8e5m2, must be f8e4m3/,
)
caught(
  'T7',
  'experts multiply codes as if they were numbers',
  edited('routed.F', instr =>
    instr.kind === 'scaledExpertContract'
      ? { kind: 'expertContract', ins: instr.ins.slice(0, 3), outs: instr.outs }
      : instr,
  ),
  /%rows.codes is f8e4m3, must be/,
)
caught(
  'T1',
  'every rank scales by the greatest of its own rows',
  edited('routed.F', instr =>
    instr.kind === 'quantize' && instr.ins[0] === 'rows' ? { ...instr, ins: ['rows', 'rows.amax'] } : instr,
  ),
  /%rows.amax is partial on it/,
)
caught(
  'T1',
  'and reads it so',
  edited('routed.F', instr =>
    instr.kind === 'scaledExpertContract'
      ? { ...instr, ins: instr.ins.map(ref => (ref === "rows.amax'1" ? 'rows.amax' : ref)) }
      : instr,
  ),
  /%rows.amax is .*its quantized values are/,
)

test('what experts on 8 bits need, and gain', () => {
  const said = (plan: PlanInput) =>
    check(jobOf('mixtral', plan)).flatMap(({ path, severity, message }) =>
      path.startsWith('plan.fp8') ? [`${severity} ${path}: ${message}`] : [],
    )
  match(said({ fp8: {} }).join('\n'), /warning plan.fp8: matmuls of the \d+ experts stay in bf16/)
  match(
    said({ fp8: { recipe: 'blocks', block: 2, experts: true } }).join('\n'),
    /warning plan.fp8.experts: .* FP8 experts are no faster/,
  )
  const split = { tp: 2, etp: 2, fp8: { recipe: 'blocks', block: 3, experts: true } } as const
  match(said(split).join('\n'), /error plan.fp8.recipe: moe.ffn \d+ \/ \(etp 2\) = \d+ is not a multiple of/)
})

test('blocks of tokens that the tp ranks of a routed layer would cut are refused, also without sequence parallelism', () => {
  const refusals = (plan: PlanInput) =>
    check(jobOf('mixtral', { fp8: { recipe: 'blocks', block: 4 }, ...plan })).flatMap(({ severity, message }) =>
      severity === 'error' && message.startsWith('seq') ? [message] : [],
    )
  deepEqual(refusals({ tp: 4 }), ['seq 8 / (tp 4) = 2 is not a multiple of 4: a block of 4 would be split'])
  deepEqual(refusals({ tp: 2 }), [])
})
