/**
 * Routed experts over two ranks: their rows sent to the rank that holds the expert (ep 2), against every rank with all experts
 * (dp 2). One model, one batch, the same losses; a run is one step.
 */
import { Job, type PlanInput } from '../src/plan/index.js'
import type { Options, Say } from './main.js'
import type { Result } from './race.js'
import { showResults } from './report.js'
import { type Batch, racePlans } from './trainer.js'

const given: Batch = { batch: 8, seq: 256, vocab: 256 }

const jobOf = (plan: PlanInput): Job =>
  Job.parse({
    model: {
      ...{ family: 'llama', layers: 2, embed: 256, heads: 4, kvHeads: 2, ffn: 688, vocab: given.vocab },
      moe: { experts: 8, topK: 2, ffn: 344, loss: { microbatch: 0.02 } },
    },
    training: { seq: given.seq, globalBatch: given.batch, optimizer: { kind: 'adamw', lr: 1e-3 } },
    plan,
  })

const plans = {
  'dp 2': { dp: 2 },
  'ep 2': { dp: 2, ep: 2 },
} as const satisfies Readonly<Record<string, PlanInput>>

export async function experts(_: Say, { rounds = 9 }: Options = {}): Promise<Result[]> {
  const title = `Mixtral of 2 layers and 8 experts, one step of ${given.batch * given.seq} tokens over 2 ranks`
  return [await racePlans({ title, jobOf, given, plans, tolerance: 1e-3, rounds })]
}

export const showExperts = (results: readonly Result[]): string =>
  [showResults(results, [{ name: 'ep 2', peer: 'dp 2' }]), '', ...results.flatMap(({ notes }) => notes ?? [])].join(
    '\n',
  )
