/** Nothing is written down for Megatron's f and g, DDP's all-reduce or FSDP's gathers: they fall out, and are exactly theirs. */
import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import type { Program } from '../src/ir/index.js'
import { jobOf, type ModelName, titleOf } from './jobs.js'

type Plan = Parameters<typeof jobOf>[1]

const short: Readonly<Record<string, string>> = {
  'all-reduce': 'AR',
  'all-gather': 'AG',
  'reduce-scatter': 'RS',
  'all-to-all': 'A2A',
}

/** `AG2 RS2`: how many of each collective a segment has. */
function tally(program: Program, segment: string): string {
  const found = (program.segments[segment]?.instrs ?? []).flatMap(({ kind }) => short[kind] ?? [])
  return [...new Set(found)].map(name => `${name}${found.filter(other => other === name).length}`).join(' ') || '-'
}

function falls(model: ModelName, plan: Plan, expected: Readonly<Record<string, string>>): void {
  test(`${model}, ${titleOf(plan)}: ${Object.entries(expected)
    .map(([segment, counts]) => `${segment} ${counts}`)
    .join(', ')}`, () => {
    const program = compileJob(jobOf(model, plan))
    deepEqual(Object.fromEntries(Object.keys(expected).map(segment => [segment, tally(program, segment)])), expected)
  })
}

/** All of the model is one bucket. */
const [gathered, reduced] = ['gather embed, 4 layers, head', 'reduce head, 4 layers, embed']

for (const model of ['gpt', 'llama'] as const) {
  falls(model, { tp: 2 }, { 'layers.F': 'AR2', 'layers.B': 'AR2' })
  falls(model, { tp: 2, schedule: 'zb-h1' }, { 'layers.F': 'AR2', 'layers.I': 'AR2', 'layers.W': '-' })
  falls(model, { tp: 2, sequenceParallel: true }, { 'layers.F': 'AG2 RS2', 'layers.B': 'AG4 RS2' })
  falls(model, { tp: 2, sequenceParallel: true, schedule: 'zb-h1' }, { 'layers.I': 'AG2 RS2', 'layers.W': 'AG4' })
  falls(model, { tp: 2 }, { 'embed.F': 'AR1', 'embed.B': '-', 'head.F': 'AR3', 'head.B': 'AR1' })
  falls(model, { dp: 2 }, { 'layers.F': '-', 'layers.B': '-', [reduced]: 'AR1', 'update layers.mlp.up': '-' })
  falls(
    model,
    { dp: 2, zero: 1 },
    { [gathered]: 'AG1', 'layers.B': '-', [reduced]: 'RS1', 'update layers.mlp.up': '-' },
  )
  falls(model, { dp: 2, zero: 2, reduce: 'step' }, { [gathered]: 'AG1', 'layers.B': '-', [reduced]: 'RS1' })
  falls(model, { dp: 2, zero: 2 }, { [gathered]: 'AG1', 'layers.B': '-', 'reduce layers': 'RS1', 'add layers': '-' })
  falls(model, { dp: 2, zero: 3 }, { 'gather layers': 'AG1', 'layers.F': '-', 'layers.B': '-', 'reduce layers': 'RS1' })
  falls(model, { dp: 2, zero: 3, gather: 'step', reduce: 'step' }, { [gathered]: 'AG1', [reduced]: 'RS1' })
}

// kvHeads 2 on tp 4: keys and values whole over tp.1, their weight gradients partial over it.
falls('llama', { tp: 4 }, { 'layers.F': 'AR2', 'layers.B': 'AR2', 'reduce 4 layers': 'AR1' })

// Norm gains see only their part of the sequence; learned positions come out split on it and are gathered, not summed.
falls('gpt', { tp: 2, sequenceParallel: true }, { 'reduce head, 4 layers': 'AR1', 'reduce embed.positions': 'AG1' })
