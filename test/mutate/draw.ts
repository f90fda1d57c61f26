/** What mutations are made of: a place drawn at random, and a program with one thing changed there. */
import type { choices } from '../../src/base/index.js'
import type { Call, Place, Program, Segment, Step } from '../../src/ir/index.js'

export interface Mutation {
  readonly name: string
  readonly what: string
  /** Where; of something moved, where it was and where it went. */
  readonly at: readonly Place[]
  readonly program: Program
}

export type Random = ReturnType<typeof choices>
export type Mutator = (program: Program, random: Random) => Omit<Mutation, 'name'> | undefined

/** A call drawn at random, and a place in its segment. */
export interface Draw {
  readonly pipeline: number
  readonly step: number
  readonly call: Call
  readonly segment: Segment
  /** Change the segment for this call alone. */
  readonly alone: boolean
}

export function draw(program: Program, { int, pick, chance }: Random): Draw {
  const pipeline = int(program.streams.length)
  const calls = program.streams[pipeline].steps.flatMap((step, i) => (step.kind === 'call' ? [i] : []))
  const step = pick(calls)
  const call = program.streams[pipeline].steps[step] as Call // the list holds calls only
  return { pipeline, step, call, segment: program.segments[call.segment], alone: chance(0.5) }
}

export function withSegment(program: Program, { alone, call, pipeline, step }: Draw, changed: Segment): Program {
  if (!alone) return { ...program, segments: { ...program.segments, [call.segment]: changed } }
  const name = `${call.segment}~`
  const segments = { ...program.segments, [name]: { ...changed, name } }
  return withSteps({ ...program, segments }, pipeline, steps => steps.with(step, { ...call, segment: name }))
}

export function withSteps(
  program: Program,
  pipeline: number,
  edit: (steps: readonly Step[]) => readonly Step[],
): Program {
  const { [pipeline]: stream } = program.streams
  return { ...program, streams: program.streams.with(pipeline, { ...stream, steps: edit(stream.steps) }) }
}

export const placeIn = ({ call, alone, pipeline, step }: Draw, instr?: number): Place => ({
  segment: alone ? `${call.segment}~` : call.segment,
  ...(alone ? { pipeline, step } : {}),
  ...(instr === undefined ? {} : { instr }),
})

export const without = <T>(list: readonly T[], ...at: readonly number[]): T[] => list.filter((_, i) => !at.includes(i))
export const moved = <T>(list: readonly T[], from: number, to: number): T[] => {
  const rest = without(list, from)
  rest.splice(to, 0, list[from])
  return rest
}
