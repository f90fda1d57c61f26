/** `recompute: cheap`: what is computed again is made of what is kept anyway, and is less than half of what other words repeat. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { type Program, verify } from '../src/ir/index.js'
import { check, Job } from '../src/plan/index.js'
import { jobOf, type ModelName } from './jobs.js'

const kept = (program: Program): string[] => {
  const { roles, buffers } = program.segments['layers.F']
  return Object.keys(buffers).filter(ref => roles[buffers[ref].role].name.is === 'keep')
}

/** What a layer keeps less of than without recomputation. */
const cases: readonly (readonly [ModelName, readonly string[]])[] = [
  ['llama', ['norm1', 'norm2', 'swiglu']],
  ['gpt', ['norm1', 'norm2', 'gelu']],
  ['latent', ['norm1', 'attn.q.norm', 'attn.kv.norm', 'norm2', 'swiglu']],
]

for (const [model, again] of cases)
  test(`cheap, ${model}: ${again.join(', ')} are not kept, rotated queries and keys are`, () => {
    const [none, cheap] = (['none', 'cheap'] as const).map(recompute => compileJob(jobOf(model, { recompute })))
    deepEqual(
      kept(none).filter(ref => !kept(cheap).includes(ref)),
      again,
    )
    deepEqual(
      kept(cheap).filter(ref => !kept(none).includes(ref)),
      [],
    )
    ok(cheap.streams[0].peak.activations < none.streams[0].peak.activations)
    deepEqual(verify(cheap), [])
  })

test('a repeated norm that is given to another operand than the forward gave it breaks a law', () => {
  const program = compileJob(jobOf('llama', { recompute: 'cheap' }))
  const { 'layers.B': backward } = program.segments
  const instrs = backward.instrs.map(instr => (instr.kind === 'rmsNorm' ? { ...instr, eps: 0.5 } : instr))
  equal(instrs.filter(({ kind }) => kind === 'rmsNorm').length, 2)
  const broken = { ...program, segments: { ...program.segments, 'layers.B': { ...backward, instrs } } }
  ok(verify(broken, compileJob(jobOf('llama', {}))).length > 0)
})

test('a word that is none is refused with those that are', () => {
  const { success, error } = Job.safeParse({ ...jobOf('llama', {}), plan: { recompute: 'some' } })
  equal(success, false)
  ok(JSON.stringify(error).includes('expected none, cheap, selective, full or a list of op names'))
  deepEqual(check(jobOf('llama', { recompute: 'cheap' })), [])
})
