/**
 * A long sequence, 4,096 tokens, over two ranks: split by context parallelism in every way, against tensor parallelism. One
 * model, one batch of one sequence, the same losses; a run is one step.
 */
import { Job, type PlanInput } from '../src/plan/index.js'
import type { Options, Say } from './main.js'
import type { Result } from './race.js'
import { showResults, type Versus } from './report.js'
import { type Batch, racePlans } from './trainer.js'

const given: Batch = { batch: 1, seq: 4096, vocab: 256 }

const jobOf = (plan: PlanInput): Job =>
  Job.parse({
    model: { family: 'llama', layers: 2, embed: 256, heads: 4, kvHeads: 2, ffn: 688, vocab: given.vocab },
    training: { seq: given.seq, globalBatch: given.batch, optimizer: { kind: 'adamw', lr: 1e-3 } },
    plan,
  })

const plans = {
  'tp 2': { tp: 2 },
  ring: { cp: 2, attention: 'ring' },
  'ring in order': { cp: 2, attention: 'ring', zigzag: false },
  gather: { cp: 2 },
  ulysses: { cp: 2, attention: 'ulysses' },
} as const satisfies Readonly<Record<string, PlanInput>>

export async function context(_: Say, { rounds = 7 }: Options = {}): Promise<Result[]> {
  const title = `Llama of 2 layers, one step of ${given.seq} tokens over 2 ranks`
  return [await racePlans({ title, jobOf, given, plans, tolerance: 1e-4, rounds })]
}

const versus: readonly Versus[] = Object.keys(plans)
  .filter(name => name !== 'tp 2')
  .map(name => ({ name, peer: 'tp 2' }))

export const showContext = (results: readonly Result[]): string =>
  [showResults(results, versus), '', ...results.flatMap(({ notes }) => notes ?? [])].join('\n')
