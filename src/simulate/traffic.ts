/** What a rank hands to the network, and to other spaces, in a step: by the axis it goes along and the link it takes. */
import { baseOf } from '../base/index.js'
import { busFactorOf, workOf } from '../cost/index.js'
import { type Collective, isCollective, isRouted, type Program, type Segment } from '../ir/index.js'
import { membersOf } from './cluster-prices.js'
import type { Prices } from './prices.js'

/** Calls, bytes and time of one kind of communication. */
export interface Traffic {
  /** 'all-reduce tp', 'messages pp' */
  readonly what: string
  readonly link: string
  readonly count: number
  /** Bytes of the tensors. */
  readonly bytes: number
  /** Bytes that the rank sends for them: (n - 1) / n of an all-gather over n ranks, twice that of an all-reduce. */
  readonly sent: number
  /** Total, if each has the link to itself. */
  readonly seconds: number
}

/** Traffic of the ranks of one pipeline coordinate, most time first. */
export function rankTraffic(program: Program, prices: Prices, pp: number): Traffic[] {
  const found = new Map<string, TrafficSum>()
  const sumOf = (what: string, link: number): TrafficSum => {
    const key = `${what} ${link}`
    const sum = found.get(key) ?? { what, link: prices.links[link], count: 0, bytes: 0, sent: 0, seconds: 0 }
    found.set(key, sum)
    return sum
  }
  // A stream calls a few segments thousands of times.
  const ofSegment = new Map<string, readonly Sent[]>()
  const sentBy = (name: string): readonly Sent[] => {
    const sent = ofSegment.get(name) ?? collectivesOf(program, program.segments[name], prices, sumOf)
    ofSegment.set(name, sent)
    return sent
  }
  const { steps, frames } = program.streams[pp]
  for (const step of steps) {
    if (step.kind === 'send') {
      const { bytes } = frames[step.frame]
      const { seconds, link } = prices.message(bytes, pp, step.peer)
      add({ sum: sumOf('messages pp', link), bytes, sent: bytes, seconds })
    }
    if (step.kind === 'call') sentBy(step.segment).forEach(add)
  }
  return [...found.values()].sort((a, b) => b.seconds - a.seconds)
}

type TrafficSum = { -readonly [Field in keyof Traffic]: Traffic[Field] }

interface Sent {
  readonly sum: TrafficSum
  readonly bytes: number
  readonly sent: number
  readonly seconds: number
}

function add({ sum, bytes, sent, seconds }: Sent): void {
  sum.count++
  sum.bytes += bytes
  sum.sent += sent
  sum.seconds += seconds
}

function collectivesOf(
  { mesh }: Program,
  segment: Segment,
  prices: Prices,
  sumOf: (what: string, link: number) => TrafficSum,
): Sent[] {
  return segment.instrs.filter(isCollective).flatMap(instr => {
    const work = workOf(instr, segment, { mesh })
    if (work.kind !== 'collective' && work.kind !== 'copy') return []
    const { seconds, link } = prices.collective(instr, segment)
    const sent = work.kind === 'copy' ? 0 : work.bytes * busFactorOf(work.how, membersOf(mesh, work.group).size)
    return { sum: sumOf(`${instr.kind} ${axesOf(instr)}`.trimEnd(), link), bytes: work.bytes, sent, seconds }
  })
}

/** The axes that a collective runs along, as a plan names them: 'dp+cp', and 'ep' for rows on their way to experts. */
const axesOf = (instr: Collective): string =>
  isRouted(instr) ? 'ep' : [...new Set(instr.group.axes.map(baseOf))].join('+')
