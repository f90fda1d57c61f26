/** What a rank hands to the network, and to other spaces, in a step: by the axis it goes along and the link it takes. */
import { workOf } from '../cost/index.js'
import { isCollective, type Program } from '../ir/index.js'
import type { Prices } from './prices.js'

export interface Traffic {
  /** 'all-reduce tp', 'messages pp' */
  readonly what: string
  readonly link: string
  readonly count: number
  readonly bytes: number
  /** Together, each with the link to itself. */
  readonly seconds: number
}

/** The traffic of the ranks of one pipeline coordinate; what takes the longest comes first. */
export function rankTraffic(program: Program, prices: Prices, pp: number): Traffic[] {
  const found = new Map<string, Traffic>()
  const add = (what: string, bytes: number, { seconds, link }: { seconds: number; link: number }) => {
    const key = `${what} ${link}`
    const { count, bytes: before, seconds: spent } = found.get(key) ?? { count: 0, bytes: 0, seconds: 0 }
    const sum = { count: count + 1, bytes: before + bytes, seconds: spent + seconds }
    found.set(key, { what, link: prices.links[link], ...sum })
  }
  const { steps, frames } = program.streams[pp]
  for (const step of steps) {
    if (step.kind === 'send') {
      const { bytes } = frames[step.frame]
      add('messages pp', bytes, prices.message(bytes, pp, step.peer))
    }
    if (step.kind !== 'call') continue
    const segment = program.segments[step.segment]
    for (const instr of segment.instrs.filter(isCollective)) {
      const work = workOf(instr, segment, { mesh: program.mesh })
      if (work.kind !== 'collective' && work.kind !== 'copy') continue
      add(`${instr.kind} ${instr.group.axes.join('+')}`.trimEnd(), work.bytes, prices.collective(instr, segment))
    }
  }
  return [...found.values()].sort((a, b) => b.seconds - a.seconds)
}
