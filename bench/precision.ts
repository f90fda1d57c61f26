/**
 * A step of the GPT of `training` on one rank, in 16 bits against f32: the same weights and tokens, losses within what 16 bits make
 * of them, and the bytes that each plan holds.
 */
import { compileJob } from '../src/compile/index.js'
import { Job, type PlanInput } from '../src/plan/index.js'
import type { Options, Say } from './main.js'
import type { Result } from './race.js'
import { showResults } from './report.js'
import { type Batch, racePlans } from './trainer.js'

const given: Batch = { batch: 8, seq: 256, vocab: 256 }

const jobOf = (plan: PlanInput): Job =>
  Job.parse({
    model: { family: 'gpt', layers: 6, embed: 384, heads: 6, vocab: given.vocab, tied: false },
    training: { seq: given.seq, globalBatch: given.batch, optimizer: { kind: 'adamw', lr: 1e-3, weightDecay: 0.1 } },
    plan,
  })

const plans = {
  f32: {},
  bf16: { precision: 'bf16' },
  'pure-bf16': { precision: 'pure-bf16' },
} as const satisfies Readonly<Record<string, PlanInput>>

function bytesNote(name: string, plan: PlanInput): string {
  const [{ arena, peak }] = compileJob(jobOf(plan)).streams
  const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`
  return `${name}: ${megabytes(arena)} in all, activations ${megabytes(peak.activations)}, parameters ${megabytes(peak.parameters)}`
}

export async function precision(_: Say, { rounds = 9 }: Options = {}): Promise<Result[]> {
  const title = `GPT 10.9M, one step of ${given.batch * given.seq} tokens on one rank`
  const result = await racePlans({ title, jobOf, given, plans, tolerance: 2e-2, rounds })
  return [
    {
      ...result,
      notes: [...(result.notes ?? []), ...Object.entries(plans).map(([name, plan]) => bytesNote(name, plan))],
    },
  ]
}

const versus = ['bf16', 'pure-bf16'].map(name => ({ name, peer: 'f32' }))

export const showPrecision = (results: readonly Result[]): string =>
  [showResults(results, versus), '', ...results.flatMap(({ notes }) => notes ?? [])].join('\n')
