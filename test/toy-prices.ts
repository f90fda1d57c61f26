/** Prices one can reckon with in the head, and the smallest jobs they are tried on. */
import { compileJob } from '../src/compile/index.js'
import { type Instr, type Program, type Segment, traitsOf } from '../src/ir/index.js'
import { Job, type JobInput } from '../src/plan/index.js'
import type { Schedule, TaskCost } from '../src/schedule/index.js'
import type { Prices } from '../src/simulate/index.js'

export const free: Prices = {
  links: ['wire'],
  compute: () => 0,
  collective: () => ({ seconds: 0, link: 0 }),
  message: () => ({ seconds: 0, link: 0, held: 0 }),
  flops: () => 0,
  contention: { compute: 0, network: 0 },
}

/** Only the first instruction of a segment that computes costs anything: the segment has a price as a whole. */
const whole = (instr: Instr, { instrs }: Segment, seconds: number): number =>
  instr === instrs.find(other => traitsOf(other).lane === 'compute' && !traitsOf(other).finishes) ? seconds : 0

/** A forward through a layer costs F, its gradients I and W, a message C (copied out of its buffer at once); all the rest is free. */
export const taskPrices = ({ F, I, W, C }: TaskCost): Prices => ({
  ...free,
  compute: (instr, segment) => {
    const cost = { F, I, W, B: I + W }[segment.phase as string] ?? 0
    return segment.name.startsWith('layers.') ? whole(instr, segment, cost) : 0
  },
  message: () => ({ seconds: C, link: 0, held: 0 }),
})

/** A network of layers that do next to nothing: its program is all schedule. */
export const layersOn = (plan: NonNullable<JobInput['plan']>, schedule?: Schedule): Program => {
  const job = Job.parse({
    model: { family: 'mlp', layers: 1, embed: 8, ffn: 8 },
    training: { seq: 8, globalBatch: 1 },
    plan,
  })
  const { pp, chunks, dp, ep, microbatches } = job.plan
  return compileJob(
    {
      ...job,
      model: { ...job.model, layers: pp * chunks },
      training: { ...job.training, globalBatch: dp * ep * microbatches },
    },
    schedule,
  )
}
