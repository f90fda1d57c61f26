/** Simulated steps of jobs, span by span and on one scale of time, and how much of their traffic lies beside compute. */
import { clusterOf, clusterPrices, simulate, worldOf } from 'lockstep'
import type { Spans, TimelineData } from '../parts/timeline/track.js'
import { type JobText, programOf } from './jobs.js'
import { timelineOf } from './timeline.js'

export interface StepsInput {
  readonly jobs: readonly JobText[]
  readonly device: string
}

/** Seconds are those of rank 0. */
export interface SteppedJob {
  readonly data: TimelineData
  readonly step: number
  readonly compute: number
  readonly network: number
  /** While both are at work. */
  readonly both: number
  /** Collectives and messages of the step. */
  readonly flights: number
}

export function steps({ jobs, device }: StepsInput): readonly SteppedJob[] {
  const all = jobs.map(job => {
    const program = programOf(job)
    const world = worldOf(program.mesh)
    return { program, world, simulation: simulate(program, clusterPrices(program, clusterOf(device, world))) }
  })
  const duration = Math.max(...all.map(({ simulation }) => simulation.step))
  return all.map(({ program, world, simulation }) => {
    const { tracks } = timelineOf(program, simulation, world, duration)
    const { compute, network } = tracks[0]!
    const busy = [compute, network].map(({ spans }) => unionOf(spans))
    return {
      ...{ data: { duration, tracks }, step: simulation.step, flights: network.spans.start.length },
      ...{ compute: lengthOf(busy[0]!), network: lengthOf(busy[1]!), both: lengthOf(common(busy[0]!, busy[1]!)) },
    }
  })
}

type Interval = readonly [from: number, to: number]

/** What spans cover, as intervals that do not touch. */
function unionOf({ start, end }: Spans): Interval[] {
  const covered: [number, number][] = []
  start.forEach((from, i) => {
    const last = covered.at(-1)
    if (last && from <= last[1]) last[1] = Math.max(last[1], end[i]!)
    else covered.push([from, end[i]!])
  })
  return covered
}

/** What lies in both, each in order. */
function common(a: readonly Interval[], b: readonly Interval[]): Interval[] {
  const found: Interval[] = []
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const [from, to] = [Math.max(a[i]![0], b[j]![0]), Math.min(a[i]![1], b[j]![1])]
    if (from < to) found.push([from, to])
    if (a[i]![1] < b[j]![1]) i++
    else j++
  }
  return found
}

const lengthOf = (intervals: readonly Interval[]): number => intervals.reduce((sum, [from, to]) => sum + to - from, 0)
