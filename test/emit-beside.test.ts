/** Which parameters an emitted program lays side by side, and where the loss is worked out a few tokens at a time. */
import { deepEqual, doesNotMatch, equal, match, ok } from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { compileJob } from '../src/compile/index.js'
import { fusedParamsIn } from '../src/emit/fused-params.js'
import { mergedHeads } from '../src/emit/merged-heads.js'
import type { JobInput } from '../src/plan/index.js'
import { emittedFiles } from './emitted.js'
import { jobOf, type ModelName, titleOf } from './jobs.js'
import { findPython, noPython, oneThread } from './python.js'

type PlanInput = NonNullable<JobInput['plan']>

const both = ['layers attn.q attn.k attn.v', 'layers mlp.gate mlp.up']
const cases: readonly (readonly [ModelName, PlanInput, beside: readonly string[], merged: boolean])[] = [
  ['llama', {}, both, true],
  ['llama', { precision: 'bf16' }, both, true],
  ['llama', { recompute: 'full' }, both, true],
  ['llama', { tp: 2, sequenceParallel: true }, both, true],
  ['llama', { dp: 2 }, both, true],
  ['llama tied', { pp: 2, microbatches: 2 }, both, true],
  ['llama', { pp: 2, microbatches: 2, schedule: 'zb-h1' }, both, false],
  ['llama', { pp: 2, microbatches: 4, schedule: 'looped-bfs' }, both, false],
  ['gpt', {}, ['layers attn.q attn.k attn.v'], true],
  // What lies in parts has no columns.
  ['llama', { dp: 2, zero: 1 }, [], true],
  ['llama', { dp: 2, zero: 3 }, [], true],
  ['mlp', {}, [], false],
]

for (const [model, plan, beside, merged] of cases)
  test(`side by side of ${model} with ${titleOf(plan) || 'one rank'}: ${beside.join(', ') || 'nothing'}`, () => {
    const program = compileJob(jobOf(model, plan))
    deepEqual([...fusedParamsIn(program).names], beside)
    const heads = Object.keys(mergedHeads(program).segments).filter(name => name.endsWith('.FB'))
    equal(heads.length > 0, merged)
  })

test('Muon, averages and rounding by chance take each of them by itself, and leave them side by side', () => {
  const muon = compileJob(jobOf('llama', {}, { optimizer: { kind: 'muon', lr: 1e-3 } }))
  deepEqual([...fusedParamsIn(muon).names], both)
  const averaged = compileJob(jobOf('llama', {}, { ema: { decay: 0.9 } }))
  deepEqual([...fusedParamsIn(averaged).names], both)
  const byChance = compileJob(jobOf('llama', { precision: 'pure-bf16', rounding: 'stochastic' }))
  deepEqual([...fusedParamsIn(byChance).names], both)
  const files = emittedFiles(jobOf('llama', {}, { optimizer: { kind: 'muon', lr: 1e-3 } }))
  match(files['stage0.json'], /"each","update[_0-9]*",\["layers.0.attn.k","layers.0.attn.v"/)
})

test('frozen parameters that ZeRO-3 gathers into other frames are not laid side by side', () => {
  const lora = { lora: { rank: 1 } }
  deepEqual([...fusedParamsIn(compileJob(jobOf('llama', { dp: 2 }, lora))).names], ['layers mlp.gate mlp.up'])
  deepEqual([...fusedParamsIn(compileJob(jobOf('llama', { dp: 2, zero: 3 }, lora))).names], [])
})

const python = findPython()
const emitFolder = fileURLToPath(new URL('../../src/emit', import.meta.url))

test('AdamW updates columns of a joined matrix as it updates a matrix of its own', {
  skip: python ? false : noPython,
}, () => {
  const script = [
    'import torch, sys',
    `sys.path.insert(0, ${JSON.stringify(emitFolder)})`,
    'from runtime import optimizer',
    'told = dict(apply=torch.tensor(True), lr=0.1, applied_steps=torch.tensor(0.0), betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)',
    'for dtype in (torch.float32, torch.float64):',
    '    joined = [torch.rand(8, 24, generator=torch.Generator().manual_seed(i), dtype=dtype) for i in range(3)]',
    '    grad = torch.rand(8, 8, dtype=dtype)',
    '    columns = [x[:, 8:16] for x in joined]',
    '    apart = [x.clone() for x in columns]',
    '    others = [x.clone() for x in joined]',
    '    optimizer.adamw_(*columns, grad, **told)',
    '    optimizer.adamw_(*apart, grad, **told)',
    '    for column, own, before, after in zip(columns, apart, others, joined):',
    '        assert (column - own).abs().max() < 1e-6, (column - own).abs().max()',
    '        after[:, 8:16] = before[:, 8:16]',
    '        assert torch.equal(after, before), "columns beside it were changed"',
  ].join('\n')
  const { status, stderr } = spawnSync(python!, ['-c', script], { encoding: 'utf8', env: oneThread })
  equal(status, 0, stderr)
})

test('a program without such parameters, or with one that is treated in another way, is written as it is', () => {
  const program = compileJob(jobOf('llama', {}))
  const { segments, streams } = program
  const isUpdate = (name: string) => segments[name].phase === 'update'
  const update = streams[0].steps.find(
    step => step.kind === 'call' && step.param === 'layers.0.attn.k' && isUpdate(step.segment),
  )
  ok(update?.kind === 'call')
  const other = { ...segments[update.segment], instrs: segments[update.segment].instrs.map(slower) }
  const changed = { ...program, segments: { ...segments, [update.segment]: other } }
  // Segments of an update are one for each parameter of a kind of block.
  deepEqual([...fusedParamsIn(changed).names], ['layers mlp.gate mlp.up'])
})

const slower = <I extends { readonly kind: string }>(instr: I): I =>
  instr.kind === 'adamw' ? { ...instr, weightDecay: 0.5 } : instr

test('all that touches joined parameters is one line, and logits are nowhere', () => {
  const text = emittedFiles(jobOf('llama', { recompute: ['swiglu'] }))['stage0.py']
  match(text, /q_rope, k_rope, v = ops\.split_rotary\(q_k_v, .*, 2, theta=10000\)/)
  match(text, /d_norm1_sum = ops\.einsum\("b s n, e n -> b s e", d_q_k_v, attn_q_k_v\)/)
  // What is computed again waits for its gradient, and what needs it waits too.
  match(text, /d_gate_up, swiglu = ops\.swiglu_and_grad_cat\(d_swiglu, gate, up\)\n +d_mlp_down = /)
  match(text, /loss_2, d_norm, d_out = ops\.cross_entropy\(norm, out, labels, count\)/)
  // Both gradients of a norm, and the residual.
  match(
    text,
    /d_add_sum, d_norm2_weight = ops\.rms_norm_grads\(d_norm2_sum, add, norm2_weight, add_scale, add=d_x_out\)/,
  )
  doesNotMatch(text, /logits|attn_k\b|mlp_up\b/)
})
