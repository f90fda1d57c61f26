/** Steps that were timed, as kernels that were timed: the quick ones of each instruction's times, the median over equals. */
import { isKernel, type Kernel, workOf } from '../cost/index.js'
import type { Program } from '../ir/index.js'
import { doneBy, type Span } from '../trace/index.js'
import type { TimedStep } from './timed-run.js'

export interface Observation {
  readonly kernel: Kernel
  readonly seconds: number
}

/** Other work on the machine makes a kernel slow now and then and never quick: of its times over the steps, a low one counts. */
export function observe(program: Program, steps: readonly TimedStep[]): Observation[] {
  const times = new Map<string, { span: Span; all: number[] }>()
  for (const { spans } of steps)
    for (const [place, { span, seconds }] of totals(spans)) {
      if (!times.has(place)) times.set(place, { span, all: [] })
      times.get(place)!.all.push(seconds)
    }
  const kernels = [...times.values()].flatMap(({ span, all }) => {
    const { step, instr } = doneBy(program, span)
    if (step.kind !== 'call' || !instr || span.lane !== 'compute') return []
    const work = workOf(instr, program.segments[step.segment])
    return isKernel(work) ? [{ kernel: work, seconds: at(0.2, all) }] : []
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
  const found = new Map<string, { kernel: Kernel; all: number[] }>()
  for (const { kernel, seconds } of observations) {
    const key = JSON.stringify(kernel)
    if (!found.has(key)) found.set(key, { kernel, all: [] })
    found.get(key)!.all.push(seconds)
  }
  return [...found.values()].map(({ kernel, all }) => ({ kernel, seconds: at(0.5, all) }))
}

/** The value below which this share of all lies. */
const at = (share: number, values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(share * (values.length - 1))]
