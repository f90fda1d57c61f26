/** What is known of one stream before it is written, and the writer that its parts write with. */
import { type ResultName, resultNames, type Segment } from '../../ir/index.js'
import { type Task, tasksOf } from '../../schedule/index.js'
import {
  blocksOfStages,
  type CompiledParam,
  evaluates,
  lossHolders,
  type StreamSources,
  termHolders,
} from '../compiled.js'
import type { FlightDrafts } from '../data.js'
import type { SegmentDraft } from '../segment.js'
import { StreamWriter } from './writer.js'

export interface StreamContext {
  readonly compiled: StreamSources
  /** The pipeline coordinate. */
  readonly pp: number
  readonly tasks: readonly Task[]
  /** Parameters that lie here. */
  readonly held: readonly CompiledParam[]
  readonly paramOf: (name: string) => CompiledParam
  /** The sums that this stream has. */
  readonly results: readonly ResultName[]
  readonly holdsLoss: boolean
  readonly holdsTerms: boolean
  /** The blocks of each stage. */
  readonly blocks: readonly (readonly number[])[]
  readonly messages: Messages
  readonly flights: FlightDrafts
  readonly out: StreamWriter
}

/** Everything that travels between streams by tag, with the block before which it crosses. */
export type Messages = ReadonlyMap<string, number>

export function contextOf(compiled: StreamSources, pp: number, messages: Messages): StreamContext {
  const holdsLoss = lossHolders(compiled).includes(pp)
  const holdsTerms = termHolders(compiled).includes(pp)
  const trains = !evaluates(compiled)
  const isHere = { loss: holdsLoss, count: holdsLoss, normSquared: trains, terms: holdsTerms }
  const held = compiled.params.filter(({ holders }) => holders.includes(pp))
  const byName = new Map(held.map(param => [param.spec.name, param]))
  return {
    compiled,
    pp,
    tasks: tasksOf(compiled.schedule.rows[pp]),
    held,
    paramOf: name => byName.get(name)!,
    results: resultNames.filter(name => isHere[name]),
    holdsLoss,
    holdsTerms,
    blocks: blocksOfStages(compiled),
    messages,
    flights: compiled.flights[pp],
    out: new StreamWriter(),
  }
}

/** The segment that a draft became. */
export const placed = ({ compiled }: StreamContext, { name }: SegmentDraft): Segment => compiled.segments[name]
