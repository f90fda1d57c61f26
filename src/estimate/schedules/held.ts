/**
 * When a pipeline is done at the soonest, knowing the order of its tasks and when the links are taken. Flights go one behind
 * the other; where the collectives of a block use the same links, the block is not past its first one before they are
 * free. Nothing else is slower for what flies: a play of all of it takes no less, and ten times as long to find.
 */
import type { TaskKind } from '../../schedule/index.js'
import { farther, firstForward, firstOfPair, lastMaker, nowhere, type Order, taskIndex, taskKinds } from './order.js'
import type { FlownBlock, FlownCosts, PipelineFlights } from './play.js'

/** By task, where `taskIndex` says. */
interface LinkUse {
  /** Seconds from its first collective over the links on; -1: it has none. */
  readonly rest: Float64Array
  /** What leaves because of it, each time: of all its blocks, and of the last. */
  readonly flown: Float64Array
  readonly flownLast: Float64Array
}

/** By rank. */
export function finishHeld(order: Order, costs: FlownCosts): Float64Array {
  const { ranks, rank, what, after, sends, marks, arrived, stages } = order
  const { tasks, near, far, flights } = costs
  const { rest, flown, flownLast } = linkUse(stages, flights)
  const steps = Array.from({ length: ranks }, (_, one) => flights.ofStep(one))
  const links = Float64Array.from(steps, ({ begun }) => begun)
  const [now, messages] = [new Float64Array(ranks), new Float64Array(ranks)]
  for (let task = 0; task < rank.length; task++) {
    const by = rank[task]
    const kind = what[task]
    const mark = marks[task]
    const need = after[task]
    let start = need >= 0 && arrived[need] > now[by] ? arrived[need] : now[by]
    if (mark & firstForward) start = Math.max(start, steps[by].arrivals.get(kind % stages)?.[0] ?? 0)
    let end = start + tasks[kind]
    if (rest[kind] >= 0 && links[by] + rest[kind] > end) end = links[by] + rest[kind]
    now[by] = end
    if (flown[kind] > 0) take(by, start, end, flown[kind], flownLast[kind])
    if (mark & lastMaker) {
      const departures = steps[by].departures.get(kind % stages)
      if (departures) take(by, start, end, sumOf(departures), departures[0])
    }
    if (mark & firstOfPair) continue
    if (task > 0 && marks[task - 1] & firstOfPair) arrived[task - 1] = send(task - 1, by, end)
    arrived[task] = send(task, by, end)
  }
  return now.map((time, by) => Math.max(time, links[by]))

  /** The first flight leaves after the first block at the soonest, the last after the last. */
  function take(by: number, start: number, end: number, all: number, last: number): void {
    const first = (links[by] > start ? links[by] : start) + all
    links[by] = first > end + last ? first : end + last
  }

  function send(task: number, by: number, at: number): number {
    if (sends[task] === nowhere) return at
    const start = messages[by] > at ? messages[by] : at
    messages[by] = start + (sends[task] === farther ? far : near)
    return messages[by]
  }
}

const sumOf = (row: Float64Array): number => row.reduce((sum, seconds) => sum + seconds, 0)

function linkUse(stages: number, { blocks, reducesEach, besideTp, besideApart }: PipelineFlights): LinkUse {
  const column = () => new Float64Array(taskKinds.length * stages)
  const [rest, flown, flownLast] = [column().fill(-1), column(), column()]
  const restOf = ({ acts, seconds }: FlownBlock, kind: TaskKind) =>
    Math.min(seconds[kind], acts[kind].restFrom(besideTp, besideApart))
  for (let stage = 0; stage < stages; stage++)
    for (const kind of taskKinds) {
      const at = taskIndex(stages, kind, stage)
      const own = blocks[stage]
      for (let i = 0; i < own.length; i++) {
        const block = own[kind === 'F' ? i : own.length - 1 - i]
        if (rest[at] >= 0) rest[at] += block.seconds[kind]
        else if (besideTp || besideApart) rest[at] = restOf(block, kind) || -1
        if (!reducesEach || kind === 'F' || kind === 'I') continue
        flown[at] += block.reduce
        flownLast[at] = block.reduce
      }
    }
  return { rest, flown, flownLast }
}
