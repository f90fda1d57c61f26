/** What a job takes where ranks are no threads: the interpreter runs all of them, one after the other, in f64. */
import { sizesOf } from 'lockstep'
import { readJob } from './jobs.js'

export interface Weight {
  /** Floating-point operations of a step. */
  readonly flops: number
  /** Parameters, gradients and two states of the optimizer, on all ranks. */
  readonly bytes: number
  /** Of a step, about. */
  readonly seconds: number
  /** More than a reader waits for, or than a page may hold. */
  readonly large: boolean
}

/** Operations a second of the interpreter, measured: it is made to be read, not to be fast. */
const rate = 3e7
const [mostSeconds, mostBytes] = [10, 2 ** 30]

export function weigh({ job }: { readonly job: string }): Weight {
  const { model, training, plan } = readJob(job)
  const sizes = sizesOf(model, training.seq)
  const flops = sizes.flops.training * training.globalBatch * training.seq
  const copies = plan.dp * plan.cp
  const held = (from: number) => (plan.zero >= from ? 1 : copies)
  const bytes = 8 * sizes.parameters * (held(3) + held(2) + 2 * held(1))
  const seconds = flops / rate
  return { flops, bytes, seconds, large: seconds > mostSeconds || bytes > mostBytes }
}
