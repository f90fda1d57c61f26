/** Slips that peers have made with experts: each changes a number, and a law names it. */
import { ok } from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob, serialJob } from '../src/compile/index.js'
import {
  type Call,
  type Instr,
  type Law,
  type Program,
  type Segment,
  type Step,
  showViolation,
  verify,
} from '../src/ir/index.js'
import { Job } from '../src/plan/index.js'

const job = Job.parse({
  model: {
    ...{ family: 'llama', layers: 2, embed: 4, heads: 2, ffn: 4, vocab: 8 },
    moe: { experts: 4, topK: 2, ffn: 4, bias: 0.01, loss: { sequence: 0.1 } },
  },
  training: { seq: 4, globalBatch: 8 },
  plan: { dp: 4, ep: 2, microbatches: 2, expertCapacity: 1.25 },
})
const program = compileJob(job)
const serial = compileJob(serialJob(job, job.plan.microbatches))

type Edit = (program: Program) => Program

const editSegment =
  (name: RegExp, edit: (segment: Segment) => Partial<Segment>): Edit =>
  given => {
    const found = Object.keys(given.segments).filter(key => name.test(key))
    ok(found.length > 0, `no segment is like ${name}`)
    const changed = found.map(key => [key, { ...given.segments[key], ...edit(given.segments[key]) }])
    return { ...given, segments: { ...given.segments, ...Object.fromEntries(changed) } }
  }
const editInstrs = (name: RegExp, edit: (instr: Instr, at: number) => Instr | readonly Instr[]): Edit =>
  editSegment(name, ({ instrs }) => ({ instrs: instrs.flatMap((instr, at) => edit(instr, at)) }))
const editSteps =
  (edit: (steps: readonly Step[]) => readonly Step[]): Edit =>
  given => ({ ...given, streams: given.streams.map(stream => ({ ...stream, steps: edit(stream.steps) })) })

const isCall = (step: Step): step is Call => step.kind === 'call'

/** A phase of layer 1 is given what layer 0 has kept. */
const foreignStash: Edit = given => {
  const role = given.segments['routed.B'].roles.findIndex(({ name }) => name.is === 'keep')
  return editSteps(steps => {
    const calls = steps.filter(isCall).filter(({ segment }) => segment === 'routed.B')
    const stashOf = (microbatch: number) =>
      calls.find(call => call.block === 1 && call.microbatch === microbatch)!.bind[role]
    return steps.map(step =>
      isCall(step) && step.segment === 'routed.B' && step.block === 2
        ? { ...step, bind: step.bind.map((frame, i) => (i === role ? stashOf(step.microbatch) : frame)) }
        : step,
    )
  })(given)
}

/** The choices themselves lie as the routes do that were made from them. */
const otherRoutes = editInstrs(/^routed\.F$/, instr =>
  instr.kind === 'all-combine' ? { ...instr, ins: instr.ins.map((ref, i) => (i === 1 ? 'choice' : ref)) } : instr,
)

/** Layers that compute their forward again count their choices again. */
const countedAgain: Edit = given => {
  const [forward, backward] = ['routed.F', 'routed.B'].map(name => given.segments[name])
  const counted = forward.roles.findIndex(({ name }) => name.is === 'grad')
  const scratch = backward.roles.findIndex(({ name }) => name.is === 'scratch' && name.of === 'gradients')
  const buffers = {
    ...backward.buffers,
    load: { ...forward.buffers.load, role: scratch },
    counts: { ...forward.buffers['grad.mlp.bias'], role: backward.roles.length },
  }
  const again = forward.instrs
    .filter(i => i.kind === 'countChoices' || (i.kind === 'accumulate' && i.ins[0] === 'load'))
    .map(instr => (instr.kind === 'accumulate' ? { ...instr, outs: ['counts'] } : instr))
  const roles = [...backward.roles, forward.roles[counted]]
  const segments = { 'routed.B': { ...backward, roles, buffers, instrs: [...again, ...backward.instrs] } }
  return editSteps(steps => {
    const frameOf = ({ block }: Call) =>
      steps.filter(isCall).find(call => call.segment === 'routed.F' && call.block === block)!.bind[counted]
    return steps.map(step =>
      isCall(step) && step.segment === 'routed.B' ? { ...step, bind: [...step.bind, frameOf(step)] } : step,
    )
  })({ ...given, segments: { ...given.segments, ...segments } })
}

const twice = (segment: RegExp): Edit =>
  editSteps(steps =>
    steps.flatMap(step => (step.kind === 'call' && segment.test(step.segment) ? [step, step] : [step])),
  )

// biome-ignore format: a slip a line
const slips: readonly (readonly [what: string, Law, Edit])[] = [
  ['nobody looks whether rows fit', 'R1', editInstrs(/^routed\.F$/, i => (i.kind === 'rowsOf' ? { ...i, guarded: false } : i))],
  ['a layer goes back with what another has kept', 'I1', foreignStash],
  ['rows go back by other routes', 'R2', otherRoutes],
  ['rows stay at home', 'T1', editInstrs(/^routed\.F$/, i => (i.kind === 'all-dispatch' ? { ...i, group: { axes: [] } } : i))],
  ['rows move to all of dp', 'T1', editInstrs(/^routed\.F$/, i => (i.kind === 'all-combine' ? { ...i, group: { axes: ['dp.0.0', 'dp.0.1'] } } : i))],
  ['experts are summed over all of dp', 'T1', editInstrs(/^reduce/, i => (i.kind === 'all-reduce' && i.group.axes.join() === 'dp.0.0' ? { ...i, group: { axes: ['dp.0.0', 'dp.0.1'] } } : i))],
  ['experts are not summed', 'T4', editInstrs(/^reduce/, i => (i.kind === 'all-reduce' && i.group.axes.join() === 'dp.0.0' ? [] : i))],
  ['choices are counted twice', 'I2', editInstrs(/^routed\.F$/, i => (i.kind === 'accumulate' && i.ins[0] === 'load' ? [i, i] : i))],
  ['choices of a microbatch are not counted', 'I2', editInstrs(/^routed\.F$/, i => (i.kind === 'accumulate' && i.ins[0] === 'load' ? [] : i))],
  ['choices are counted again in the backward', 'I2', countedAgain],
  ['the bias is moved twice', 'P3', twice(/^update routed\.mlp\.bias/)],
  ['the bias is not moved', 'P3', editSteps(steps => steps.filter(step => !(step.kind === 'call' && /^update routed\.mlp\.bias/.test(step.segment))))],
  ['the bias moves by the counts of one rank', 'T4', editInstrs(/^reduce routed\.mlp\.bias/, () => [])],
  ['a loss that balances is lost', 'P4', editInstrs(/^routed\.F$/, i => (i.kind === 'accumulate' && i.ins[0] === 'balance' ? [] : i))],
  ['it is added twice', 'P4', editInstrs(/^routed\.F$/, i => (i.kind === 'accumulate' && i.ins[0] === 'balance' ? [i, i] : i))],
  ['the bias is in the weights', 'I1', editInstrs(/^routed\.F$/, i => (i.kind === 'topK' ? { ...i, ins: i.ins.slice(0, 1) } : i))],
]
for (const [what, law, edit] of slips)
  test(`[${law}] ${what}`, () => {
    const found = verify(edit(program), serial)
    ok(
      found.some(violation => violation.law === law),
      `not caught; instead: ${found.map(showViolation).slice(0, 6).join('\n')}`,
    )
  })
