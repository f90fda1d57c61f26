/** Steps that were timed, as kernels that were timed: the least of each instruction over the steps, the mean over equals. */
import type { Kernel } from '../cost/index.js'
import type { Program } from '../ir/index.js'
import { kernelOf } from '../simulate/index.js'
import { doneBy, type Span } from '../trace/index.js'
import type { TimedStep } from './timed-run.js'

export interface Observation {
  readonly kernel: Kernel
  readonly seconds: number
}

/** Other work on the machine makes a kernel slower now and then and never faster, so the least is its own time. */
export function observe(program: Program, steps: readonly TimedStep[]): Observation[] {
  const least = new Map<string, { span: Span; seconds: number }>()
  for (const { spans } of steps)
    for (const [place, done] of totals(spans)) {
      const known = least.get(place)
      if (!known || done.seconds < known.seconds) least.set(place, done)
    }
  const kernels = [...least.values()].flatMap(({ span, seconds }) => {
    const { step, instr } = doneBy(program, span)
    if (step.kind !== 'call' || !instr || span.lane !== 'compute') return []
    return [{ kernel: kernelOf(instr, program.segments[step.segment]), seconds }]
  })
  return merged(kernels)
}

/** An instruction may be several commands: together they are its time. */
function totals(spans: readonly Span[]): Map<string, { span: Span; seconds: number }> {
  const found = new Map<string, { span: Span; seconds: number }>()
  for (const span of spans) {
    const place = `${span.rank} ${span.step} ${span.instr}`
    const before = found.get(place)?.seconds ?? 0
    found.set(place, { span, seconds: before + span.end - span.start })
  }
  return found
}

/** Equal kernels, wherever they were seen, have one time. */
export function merged(observations: readonly Observation[]): Observation[] {
  const found = new Map<string, { kernel: Kernel; sum: number; count: number }>()
  for (const { kernel, seconds } of observations) {
    const key = JSON.stringify(kernel)
    const known = found.get(key) ?? { kernel, sum: 0, count: 0 }
    found.set(key, { kernel, sum: known.sum + seconds, count: known.count + 1 })
  }
  return [...found.values()].map(({ kernel, sum, count }) => ({ kernel, seconds: sum / count }))
}
