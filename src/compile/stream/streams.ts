/**
 * *schedule* and *communicate*: the rows of the schedule, with their sends and receives, become streams of calls.
 * A stream is what lives from step to step, what begins the step, tasks and messages in the order of its row, and
 * what ends the step.
 */
import type { Work } from '../../base/index.js'
import type { ResultName } from '../../ir/index.js'
import { type CommAction, communicate, tasksOf } from '../../schedule/index.js'
import { sendWaits, tagOf } from '../clocks.js'
import { blocksOfStages, type StreamSources } from '../compiled.js'
import { begin } from './begin.js'
import { contextOf, type Messages, type StreamContext } from './context.js'
import { end } from './end.js'
import { frameNames } from './frames.js'
import { Crossings } from './messages.js'
import { residents } from './residents.js'
import { BlockCalls } from './tasks.js'
import type { StreamDraft } from './writer.js'

export interface StreamScript extends StreamDraft {
  /** The frames of the sums that the stream has. */
  readonly results: Readonly<Partial<Record<ResultName, number>>>
}

export function* draftingStreams(compiled: StreamSources): Work<StreamScript[]> {
  const rows = communicate(compiled.schedule)
  yield 0.2
  const waits = sendWaits(rows)
  yield 0.4
  const messages = messagesOf(compiled, rows)
  const streams: StreamScript[] = []
  for (const [pp, row] of rows.entries()) {
    yield 0.6 + (0.4 * pp) / rows.length
    streams.push(draftStream(contextOf(compiled, pp, messages), row, waits[pp]))
  }
  return streams
}

function draftStream(
  context: StreamContext,
  row: readonly CommAction[],
  waits: ReadonlyMap<number, readonly string[]>,
): StreamScript {
  const crossings = new Crossings(context)
  const calls = new BlockCalls(context)
  residents(context)
  begin(context)
  for (const [at, action] of row.entries()) {
    for (const tag of waits.get(at) ?? []) crossings.wait(tag)
    const next = row[at + 1]
    const sends = next !== undefined && 'peer' in next
    if ('peer' in action) crossings.start(action)
    else
      for (const task of tasksOf([action])) {
        crossings.waitForNeeds(task)
        calls.run(task, sends)
      }
    if (!sends) calls.depart()
  }
  for (const tag of waits.get(row.length) ?? []) crossings.wait(tag)
  end(context)
  const draft = context.out.finish()
  const results = context.results.map(name => [name, draft.frameOf(frameNames.result(name))])
  return { ...draft, results: Object.fromEntries(results) }
}

/** What leaves forward crosses behind the last block of its stage, what leaves backward before the first. */
function messagesOf(compiled: StreamSources, rows: readonly (readonly CommAction[])[]): Messages {
  const blocks = blocksOfStages(compiled)
  const messages = new Map<string, number>()
  for (const action of rows.flat()) {
    if (!('peer' in action)) continue
    const { kind, stage } = action
    const behind = kind === 'SEND_F' || kind === 'RECV_B'
    messages.set(tagOf(action), behind ? blocks[stage].at(-1)! + 1 : blocks[stage][0])
  }
  return messages
}
