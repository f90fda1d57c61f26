/**
 * What finds something in a run: it is given the steps one by one, as they happen or as they were written down, and
 * answers with what the last one is the first to show.
 */
import type { Mesh } from '../base/index.js'
import type { Job } from '../plan/index.js'
import type { HealthEvent } from './event.js'
import { median } from './median.js'
import type { Prediction } from './run-info.js'
import type { StepLine } from './run-reader.js'

export type Watch = (line: StepLine) => readonly HealthEvent[]

/** What is known of a run beside its steps. */
export interface RunFacts {
  /** Its folder. */
  readonly path: string
  readonly job?: Job | undefined
  readonly mesh?: Mesh | undefined
  readonly prediction?: Prediction | undefined
  /** Ranks share cores: how long each takes says who got one. */
  readonly crowded?: boolean
}

/** Seconds of a step below which waking a thread decides who is slow. */
const leastSeconds = 0.02

/** Whether the times of single ranks say something about them. */
export const tells = (lines: readonly StepLine[], { crowded = false }: RunFacts): boolean =>
  !crowded && lines.every(({ ranks }) => ranks) && median(lines.map(({ seconds }) => seconds)) >= leastSeconds

/** Of the time in which ranks computed, what their cores did for other processes instead. */
export const stolenIn = (lines: readonly StepLine[]): number => {
  const shares = lines.flatMap(({ cpu, ranks }) =>
    cpu === undefined || !ranks ? [] : [1 - cpu / ranks.compute.reduce((sum, own) => sum + own, 0)],
  )
  return shares.length === 0 ? 0 : Math.max(0, median(shares))
}

/** From here on who is slow may only be who got less of a core. */
export const muchStolen = 0.1

/** All that a watch finds in steps that were taken before. */
export const foundIn = (watch: Watch, steps: readonly StepLine[]): HealthEvent[] => steps.flatMap(watch)

/** A cause is named once: again only where it was gone for so many steps. */
export function once(silence: number): (step: number) => boolean {
  let last = Number.NEGATIVE_INFINITY
  return step => {
    const first = step - last > silence
    last = step
    return first
  }
}

/** Steps that are judged together. */
export const window = 12
/** The first steps warm caches and compilers up: they say nothing of the others. */
const warmUp = 2

/** Judges the last steps at each step, once there are enough; the same cause is silent until it was gone for two windows. */
export function watchWindow(judge: (steps: readonly StepLine[]) => readonly HealthEvent[]): Watch {
  const [lines, silent] = [[] as StepLine[], new Map<string, (step: number) => boolean>()]
  let passed = 0
  return line => {
    if (line.skipped !== undefined || passed++ < warmUp) return []
    lines.push(line)
    if (lines.length > window) lines.shift()
    if (lines.length < window) return []
    return judge(lines).filter(({ event, rank, where, step }) => {
      const cause = `${event} ${rank} ${where}`
      if (!silent.has(cause)) silent.set(cause, once(2 * window))
      return silent.get(cause)!(step)
    })
  }
}

/** Of the steps, how many it is true of. */
export const shareOf = <T>(items: readonly T[], holds: (item: T) => boolean): number =>
  items.filter(holds).length / Math.max(1, items.length)

/** Whether something holds in nearly all of the last steps: what happens now and then is noise. */
export const mostly = (share: number): boolean => share >= 0.8
