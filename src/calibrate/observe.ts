/** Steps that were timed, as kernels that were timed. */
import { median } from '../base/index.js'
import { isKernel, type Kernel, workOf } from '../cost/index.js'
import type { Program } from '../ir/index.js'
import { doneBy, type Span } from '../trace/index.js'

export interface Observation {
  readonly kernel: Kernel
  readonly seconds: number
}

/** Takes the spans of one step after the other; then tells the time of each kernel of the program. */
export interface Observer {
  add(spans: readonly Span[]): void
  observations(): Observation[]
  /** Whether most times of most kernels are of the kernel, not of what else the machine did. */
  settled(): boolean
}

export function observer(program: Program): Observer {
  const times = new Map<string, { span: Span; all: number[] }>()
  return {
    add(spans) {
      for (const [place, { span, seconds }] of totals(spans)) {
        if (!times.has(place)) times.set(place, { span, all: [] })
        times.get(place)!.all.push(seconds)
      }
    },
    observations: () =>
      [...times.values()].flatMap(({ span, all }) => {
        const { step, instr } = doneBy(program, span)
        if (step.kind !== 'call' || !instr || span.lane !== 'compute') return []
        const work = workOf(instr, program.segments[step.segment], program)
        return isKernel(work) ? [{ kernel: work, seconds: undisturbed(all) }] : []
      }),
    settled: () => areSettled([...times.values()].map(({ all }) => all)),
  }
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
  return [...found.values()].map(({ kernel, all }) => ({ kernel, seconds: median(all) }))
}

/** No clock here resolves shorter times: what it reports as zero took something. */
const tick = 1e-8

/** The least times depend on luck where other work comes and goes, and each kernel has its own; medians add up. */
export const typical = (times: readonly number[]): number => Math.max(tick, median(times))

/** Caches explain a few times the least, not more: such a sample waited for a core. */
const disturbed = 4
/** Of shorter times the clock and the cache are a larger part. */
const shortest = 1e-6

const calm = (times: readonly number[]): number[] => {
  const limit = disturbed * Math.max(shortest, Math.min(...times))
  return times.filter(seconds => seconds <= limit)
}

/** The typical time of the samples that did not wait for a core. A median of all would be one that did, on a machine that others use. */
export const undisturbed = (times: readonly number[]): number => typical(calm(times))

/** Whether at least half of the samples count, for nine of ten: if not, it is worth to measure once more. */
export const areSettled = (all: readonly (readonly number[])[]): boolean => {
  const unsettled = all.filter(times => calm(times).length * 2 < times.length)
  return unsettled.length * 10 <= all.length
}
