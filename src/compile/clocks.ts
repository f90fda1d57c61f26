/**
 * When a send may be waited for without standing still: at the first task of the sender that happens after the
 * receive was posted, as far as the sender can know. What a rank knows of the others travels with the messages
 * (vector clocks): having received what rank b sent at its event k, one knows that b had finished everything before k.
 */
import { type CommAction, type Task, type Transfer, tasksOf } from '../schedule/index.js'

const isTransfer = (action: CommAction): action is Transfer => 'peer' in action

/** One string per message, the same on both sides. */
export const tagOf = (t: Pick<Transfer, 'kind' | 'stage' | 'microbatch'>): string => {
  const stage = t.kind === 'RECV_F' ? t.stage - 1 : t.kind === 'RECV_B' ? t.stage + 1 : t.stage
  return `${t.kind.endsWith('F') ? 'F' : 'B'}${stage}.${t.microbatch}`
}

/** What a task must have received: its own direction's message, if one is sent at all. */
export const needOf = ({ kind, stage, microbatch }: Task): string | undefined =>
  kind === 'F' ? `F${stage - 1}.${microbatch}` : kind === 'W' ? undefined : `B${stage + 1}.${microbatch}`

/** For each row: event index -> tags of sends to wait for before that event. Sends nobody is known to take wait at the row's end. */
export function sendWaits(rows: readonly (readonly CommAction[])[]): Map<number, string[]>[] {
  const posted = new Map<string, { rank: number; at: number }>()
  for (const [rank, row] of rows.entries())
    for (const [at, action] of row.entries())
      if (isTransfer(action) && action.kind.startsWith('RECV')) posted.set(tagOf(action), { rank, at })
  const waits = rows.map(() => new Map<number, string[]>())
  const open = rows.map(() => [] as string[])
  walk(rows, (rank, at, clock) => {
    const action = rows[rank][at]
    if (isTransfer(action)) {
      if (action.kind.startsWith('SEND')) open[rank].push(tagOf(action))
      return
    }
    const done = open[rank].filter(tag => clock[posted.get(tag)!.rank] > posted.get(tag)!.at)
    if (done.length > 0) waits[rank].set(at, done)
    open[rank] = open[rank].filter(tag => !done.includes(tag))
  })
  for (const [rank, tags] of open.entries()) if (tags.length > 0) waits[rank].set(rows[rank].length, tags)
  return waits
}

/** Visits every event in an order that respects messages; `clock[b]` counts the events of rank b known to be over. */
function walk(
  rows: readonly (readonly CommAction[])[],
  visit: (rank: number, at: number, clock: readonly number[]) => void,
): void {
  const clocks = rows.map(() => rows.map(() => 0))
  const next = rows.map(() => 0)
  const sent = new Map<string, readonly number[]>()
  const messages = new Set(rows.flat().filter(isTransfer).map(tagOf))
  const needs = rows.map(row => row.map(action => needsOf(action).filter(tag => messages.has(tag))))
  for (let moved = true; moved; ) {
    moved = false
    for (const [rank, row] of rows.entries())
      for (; next[rank] < row.length; next[rank]++) {
        const action = row[next[rank]]
        const needed = needs[rank][next[rank]]
        if (!needed.every(tag => sent.has(tag))) break
        const clock = clocks[rank]
        for (const tag of needed)
          for (const [b, known] of sent.get(tag)!.entries()) clock[b] = Math.max(clock[b], known)
        visit(rank, next[rank], clock)
        clock[rank] = next[rank] + 1
        if (isTransfer(action) && action.kind.startsWith('SEND')) sent.set(tagOf(action), [...clock])
        moved = true
      }
  }
  const stuck = rows.findIndex((row, rank) => next[rank] < row.length)
  if (stuck >= 0) throw new Error(`internal: the schedule stalls on rank ${stuck}`)
}

const needsOf = (action: CommAction): string[] =>
  isTransfer(action) ? [] : tasksOf([action]).flatMap(task => needOf(task) ?? [])
