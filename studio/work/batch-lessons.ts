/** One small model trained at several batch sizes, for as many tokens or as many steps: what each batch makes of its gradients. */
import { memoryFiles, openData, startSession, train } from 'lockstep'
import { type JobText, jobOf } from './jobs.js'
import type { Context } from './modules.js'

export const sizes = [4, 8, 16, 32, 64] as const
export type Fair = 'tokens' | 'steps'
export type Rate = 'same' | 'scaled'

export interface BatchInput {
  readonly fair: Fair
  /** The learning rate of all, or one that grows with the square root of the batch. */
  readonly rate: Rate
  readonly threads: boolean
}

export interface BatchRun {
  readonly batch: number
  /** Of each step, on its own batch. */
  readonly losses: readonly number[]
  /** Of 64 sequences that none of them has seen, at the end. */
  readonly heldOut?: number
  readonly job: JobText
}

const seq = 16
/** Sequences that each run sees, or the largest batch of an equal number of steps. The interpreter is given less. */
const sequences = { threads: 1024, interpreter: 128 }
const heldOut = 64

function jobFor({ fair, rate, threads }: BatchInput, batch: number): JobText {
  const all = threads ? sequences.threads : sequences.interpreter
  const steps = all / (fair === 'tokens' ? batch : heldOut)
  const lr = 0.004 * (rate === 'scaled' ? Math.sqrt(batch / 16) : 1)
  return {
    model: { family: 'gpt', layers: 1, embed: 32, heads: 2, vocab: 32 },
    training: {
      ...{ seq, globalBatch: batch, steps, evalBatches: heldOut / batch },
      optimizer: { kind: 'adamw', lr: Number(lr.toFixed(6)) },
    },
    plan: { dp: 2 },
  }
}

/** Tells the runs so far after every few steps. */
export async function batches(input: BatchInput, { progress }: Context): Promise<readonly BatchRun[]> {
  const done: BatchRun[] = []
  for (const batch of sizes) done.push(await trained(input, batch, run => progress([...done, run])))
  return done
}

async function trained(input: BatchInput, batch: number, tell: (run: BatchRun) => void): Promise<BatchRun> {
  const text = jobFor(input, batch)
  const job = jobOf(text)
  const { dataset } = await openData(job, memoryFiles({}))
  const session = await startSession(job, dataset, { kernels: input.threads ? 'wasm' : 'reference' })
  const losses: number[] = []
  let judged: number | undefined
  try {
    for await (const { loss, evalLoss } of train(session)) {
      losses.push(loss)
      judged = evalLoss ?? judged
      if (losses.length % 8 === 0) tell({ batch, losses: [...losses], job: text })
    }
  } finally {
    await session.stop()
  }
  return { batch, losses, job: text, ...(judged !== undefined && { heldOut: judged }) }
}
