/** What each rank did with a step: whom others waited for is known, because every collective has a last member to begin. */
import { type MeshAxis, type Rank, worldOf } from '../base/index.js'
import type { Program } from '../ir/index.js'
import { begunIn } from './meet.js'
import { endOf, type Span, startOf } from './span.js'

/** Along an axis, or among ranks that no one axis joins. */
export type Along = MeshAxis | 'mesh'

/** Seconds; lists are by rank. */
export interface RankTimes {
  /** Of the step. */
  readonly seconds: number
  readonly compute: readonly number[]
  /** From its first span to its last, but for collectives and messages: what holds a rank up between two spans counts too. */
  readonly busy: readonly number[]
  /** In collectives that all members had begun. */
  readonly network: Readonly<Partial<Record<Along, readonly number[]>>>
  /** In collectives that some had not begun. */
  readonly waiting: readonly number[]
  /** What others waited for this rank, the last to begin. */
  readonly late: readonly number[]
}

export function rankTimesOf(program: Program, spans: readonly Span[]): RankTimes {
  const zeros = (): number[] => new Array(worldOf(program.mesh)).fill(0)
  const [compute, waiting, late, carried] = [zeros(), zeros(), zeros(), zeros()]
  const [first, last] = [zeros().fill(Number.POSITIVE_INFINITY), zeros()]
  const network = new Map<Along, number[]>()
  const begun = begunIn(program, spans)
  const communicates = (rank: Rank, along: Along, time: number) => {
    if (!network.has(along)) network.set(along, zeros())
    network.get(along)![rank] += time
  }
  for (const span of spans) {
    const [{ rank }, length] = [span, span.end - span.start]
    first[rank] = Math.min(first[rank], span.start)
    last[rank] = Math.max(last[rank], span.end)
    if (span.lane !== 'network') compute[rank] += length
    else {
      carried[rank] += length
      const awaited = begun(span)
      if (span.instr < 0 && awaited === undefined) continue
      const waited = awaited === undefined ? 0 : Math.min(length, Math.max(0, awaited.time - span.start))
      waiting[rank] += waited
      if (awaited !== undefined && awaited.rank !== rank) late[awaited.rank] += waited
      communicates(rank, awaited?.axis ?? 'mesh', length - waited)
    }
  }
  const seconds = spans.length > 0 ? endOf(spans) - startOf(spans) : 0
  const busy = compute.map((own, rank) => Math.max(own, last[rank] - first[rank] - carried[rank]))
  return { seconds, compute, busy, network: Object.fromEntries(network), waiting, late }
}

/** With three digits: a line of it each step should not take more room than all the rest. */
export function briefly({ seconds, compute, busy, network, waiting, late }: RankTimes): RankTimes {
  const brief = (times: readonly number[]) => times.map(time => Number(time.toPrecision(3)))
  const brieflyAlong = Object.entries(network).map(([along, times]) => [along, brief(times)])
  return {
    ...{ seconds: Number(seconds.toPrecision(3)), compute: brief(compute), busy: brief(busy) },
    ...{ network: Object.fromEntries(brieflyAlong), waiting: brief(waiting), late: brief(late) },
  }
}
