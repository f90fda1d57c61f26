/**
 * Bytes on the links of a cluster in a step: by the axis they go along, the collective that sends them, and the level of the topology whose
 * links carry them. The algorithm is the one that is priced: a ring passes every level, others send less outside than inside.
 */
import { worldOf } from '../base/index.js'
import type { Cluster, LinkKind } from '../cluster/index.js'
import { type Collective, quote, workOf } from '../cost/index.js'
import { axisOfCollective, type Instr, isCollective, type Program, type Segment } from '../ir/index.js'
import type { Along } from '../trace/index.js'
import { membersOf, strideOf } from './cluster-prices.js'

/** Bytes that one kind of collective sends over one level of the topology. */
export interface LinkTraffic {
  readonly axis: Along
  /** The instruction: 'all-reduce', or 'send'. */
  readonly op: Instr['kind'] | 'send'
  /** The level of the topology ('node', 'fabric'), and the kind of link. */
  readonly level: string
  readonly link: LinkKind
  /** Bytes the algorithm sends from the selected ranks. */
  readonly bytes: number
  /** Time these bytes take at the bandwidth the ranks get on that link; of all selected ranks, added. */
  readonly seconds: number
  /** How often these ranks take part, each counted. */
  readonly count: number
}

type Row = Omit<LinkTraffic, 'bytes' | 'seconds' | 'count'>

/** Traffic over the topology, of the ranks of one pipeline coordinate or of all ranks; most bytes first. */
export function linkTraffic(program: Program, cluster: Cluster, pp?: number): LinkTraffic[] {
  const links = new Links(program, cluster)
  const ranks = pp === undefined ? worldOf(program.mesh) / program.streams.length : 1
  for (const at of pp === undefined ? program.streams.keys() : [pp]) links.stream(at, ranks)
  return links.rows.sort((a, b) => b.bytes - a.bytes)
}

class Links {
  readonly #program: Program
  readonly #cluster: Cluster
  readonly #found = new Map<string, LinkTraffic>()
  /** What one call of a segment sends. */
  readonly #ofSegment = new Map<string, readonly LinkTraffic[]>()
  readonly #ofMessage = new Map<string, readonly LinkTraffic[]>()

  constructor(program: Program, cluster: Cluster) {
    this.#program = program
    this.#cluster = cluster
  }

  get rows(): LinkTraffic[] {
    return [...this.#found.values()]
  }

  stream(pp: number, ranks: number): void {
    const { steps, frames } = this.#program.streams[pp]
    for (const step of steps) {
      if (step.kind === 'send') this.#add(this.#message(frames[step.frame].bytes, Math.abs(step.peer - pp)), ranks)
      else if (step.kind === 'call') this.#add(this.#segment(step.segment), ranks)
    }
  }

  #add(sent: readonly LinkTraffic[], ranks: number): void {
    for (const { bytes, seconds, count, ...row } of sent) {
      const key = `${row.axis} ${row.op} ${row.level} ${row.link}`
      const before = this.#found.get(key) ?? { ...row, bytes: 0, seconds: 0, count: 0 }
      this.#found.set(key, {
        ...row,
        bytes: before.bytes + bytes * ranks,
        seconds: before.seconds + seconds * ranks,
        count: before.count + count * ranks,
      })
    }
  }

  #segment(name: string): readonly LinkTraffic[] {
    const known = this.#ofSegment.get(name)
    if (known) return known
    const segment = this.#program.segments[name]
    const sent = segment.instrs.flatMap(instr => this.#sentBy(instr, segment))
    this.#ofSegment.set(name, sent)
    return sent
  }

  #sentBy(instr: Instr, segment: Segment): LinkTraffic[] {
    const { mesh } = this.#program
    if (!isCollective(instr)) return []
    const work = workOf(instr, segment, { mesh })
    if (work?.kind !== 'collective') return []
    const axis = axisOfCollective(instr) ?? 'mesh'
    return this.#carried({ kind: work.how, bytes: work.bytes, group: membersOf(mesh, work.group) }, axis, instr.kind)
  }

  #message(bytes: number, apart: number): readonly LinkTraffic[] {
    const key = `${bytes} ${apart}`
    const known = this.#ofMessage.get(key)
    if (known) return known
    const group = { size: 2, stride: strideOf(this.#program.mesh, 'pp') * apart }
    const sent = this.#carried({ kind: 'send', bytes, group }, 'pp', 'send')
    this.#ofMessage.set(key, sent)
    return sent
  }

  /** The share of one rank in what leaves a part of its group. */
  #carried(collective: Collective, axis: Row['axis'], op: Row['op']): LinkTraffic[] {
    if (collective.group.size <= 1) return []
    const { offers, hops } = quote(collective, this.#cluster)
    return hops.flatMap(({ level, link, inner, bandwidth }, i) => {
      const carried = offers[0].carried[i]
      const [bytes, seconds] = [carried / inner, carried / bandwidth]
      return bytes > 0 ? [{ axis, op, level, link, bytes, seconds, count: 1 }] : []
    })
  }
}
