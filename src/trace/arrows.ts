/** What connects slices of different ranks: messages, and the members of a collective in the order in which they came. */
import { isCollective, type Program } from '../ir/index.js'
import { placesOf } from './meet.js'
import { nameOf } from './name.js'
import { messagesOf, type Round } from './round.js'
import type { Slice } from './slice.js'
import { doneBy, type Span } from './span.js'

export interface Arrow {
  readonly name: string
  readonly cat: 'message' | 'collective'
  /** In the order of their starts. */
  readonly through: readonly Slice[]
}

/** Through more members than this an arrow is a cloud. */
const mostMembers = 16

export function arrowsOf(program: Program, rounds: readonly Round[], slices: readonly Slice[]): Arrow[] {
  const bySpan = new Map(slices.map(slice => [slice.span, slice]))
  return [...messageArrows(program, rounds, bySpan), ...collectiveArrows(program, rounds, bySpan)]
}

type BySpan = ReadonlyMap<Span, Slice>

const messageArrows = (program: Program, rounds: readonly Round[], slices: BySpan): Arrow[] =>
  messagesOf(program, rounds).flatMap(({ tag, from, to }): Arrow[] => {
    const [start, end] = [slices.get(from), slices.get(to)]
    // Clocks of measured spans may disagree by a little; an arrow never points back in time.
    return start && end && end.start >= start.start ? [{ name: tag, cat: 'message', through: [start, end] }] : []
  })

function collectiveArrows(program: Program, rounds: readonly Round[], slices: BySpan): Arrow[] {
  const places = placesOf(program)
  const met = new Map<string, { readonly name: string; readonly members: Map<number, Slice> }>()
  for (const { rank, index, spans } of rounds)
    for (const span of spans) {
      const { instr } = doneBy(program, span)
      const slice = slices.get(span)
      if (!slice || span.lane !== 'network' || !instr || !isCollective(instr)) continue
      for (const place of places.startedBy(span)) {
        const key = `${index} ${place.name}`
        const known = met.get(key) ?? { name: nameOf(program, span), members: new Map<number, Slice>() }
        met.set(key, known)
        if (!known.members.has(rank)) known.members.set(rank, slice)
      }
    }
  return [...met.values()].flatMap(({ name, members }): Arrow[] => {
    const through = [...members.values()].sort((a, b) => a.start - b.start)
    return through.length < 2 || through.length > mostMembers ? [] : [{ name, cat: 'collective', through }]
  })
}
