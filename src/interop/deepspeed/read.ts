/** DeepSpeed's JSON, with `auto` as the Hugging Face Trainer resolves it; and the log in which DeepSpeed prints it. */
import { isMapping } from '../../plan/index.js'
import type { Given, Reader } from '../note.js'
import { numberOf, Reading } from '../reading.js'
import { Trainer, trainerSteps } from '../trainer.js'
import { readTree, type Tree } from '../tree.js'
import { type Inner, readBatch } from './batch.js'
import { known } from './known.js'
import { readClip, readOptimizer, readSchedule } from './optimizer.js'
import { readPrecision } from './precision.js'
import { readZero } from './zero.js'

export const readDeepSpeed: Reader = (text, given, format) => {
  const log = format === 'log' ? resolved(text) : undefined
  const tree = log ? log.tree : readTree(text, 'json')
  const r = new Reading({ framework: 'deepspeed', format: log ? 'log' : 'json' }, tree)
  if (!r.refused) readConfig(r, log?.world === undefined ? given : { world: log.world, ...given })
  return r.finish(known, 'DeepSpeed does not read this key')
}

function readConfig(r: Reading, given: Given): void {
  const trainer = new Trainer(given)
  readPrecision(r, trainer)
  const stage = readZero(r, given)
  readBatch(r, given, trainer, readInner(r, stage))
  trainerSteps(r, trainer)
  readOptimizer(r, trainer)
  readSchedule(r, trainer)
  readClip(r, trainer)
  r.assume('', 'plan.rankOrder', 'tp-cp-ep-dp-pp', 'tp ranks are adjacent, then dp, as in DeepSpeed')
  if (r.field('training.seq') === undefined)
    r.missing('training.seq', 'the sequence length is not in this file: pass --seq')
}

/** Ranks inside one copy of the model. */
function readInner(r: Reading, stage: number): Inner {
  const tp = Math.max(1, r.whole('tensor_parallel.autotp_size') ?? 1)
  if (r.has('tensor_parallel.autotp_size')) r.carry('tensor_parallel.autotp_size', 'plan.tp', tp)
  const sp = Math.max(1, r.whole('sequence_parallel_size') ?? 1)
  if (r.has('sequence_parallel_size')) r.carry('sequence_parallel_size', 'plan.cp', sp, 'Ulysses (all-to-all)')
  if (sp > 1) r.set('plan.attention', 'ulysses')
  for (const [key, field] of [
    ['expert_parallel.autoep_size', 'plan.ep'],
    ['expert_parallel.expert_tensor_parallel_size', 'plan.etp'],
  ] as const) {
    const size = r.whole(key, 1)
    if (size !== undefined) r.carry(key, field, size)
  }
  const stages = numberOf(r.raw('pipeline.stages'))
  if (stages !== undefined && stages > 1) {
    r.carry('pipeline.stages', 'plan.pp', stages)
    if (stage >= 2) r.refuse('zero_optimization.stage', `DeepSpeed refuses stage ${stage} with pipelines`)
  }
  return { tp: tp * Math.max(1, stages ?? 1), sp }
}

interface Log {
  readonly tree: Tree
  readonly world?: number | undefined
}

/** `json = {...}`, and the lines `name ....... value` above it, which have what the JSON leaves out. */
function resolved(text: string): Log {
  const start = text.search(/json = \{/)
  const lines = new Map(
    [...text.matchAll(/^.*?\]\s+(\w+) \.{2,} (.*)$/gm)].map(([, name, value]) => [name, value.trim()]),
  )
  const world = numberOf(lines.get('world_size'))
  if (start < 0) return { tree: readTree('{', 'json'), world }
  // Everything before becomes empty lines, so that lines are those of the log.
  const before = text.slice(0, start).replace(/[^\n]+/g, '')
  const tree = readTree(before + balanced(text.slice(start + 'json = '.length)), 'json')
  if (!isMapping(tree.value)) return { tree, world }
  const names = [
    'train_batch_size',
    'train_micro_batch_size_per_gpu',
    'gradient_accumulation_steps',
    'gradient_clipping',
  ]
  const extra = names.flatMap(name => {
    const value = numberOf(lines.get(name))
    return value === undefined ? [] : [[name, value] as const]
  })
  return { tree: { ...tree, value: { ...tree.value, ...Object.fromEntries(extra) } }, world }
}

/** Up to the brace that closes the first one. */
function balanced(text: string): string {
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '{') depth++
    if (text[at] === '}' && --depth === 0) return text.slice(0, at + 1)
  }
  return text
}
