/**
 * A run as a stream of events: the lines of its folder as they are written, four times a second at most, and what the server knows of
 * it. The run is told nothing of those who look. Whoever comes back says how many lines it has.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { eventOf, type HealthEvent, linesOf, type StepLine, stepOf } from '../../health/index.js'
import { tailOf } from '../../monitor/index.js'
import type { Io } from '../io.js'
import type { Run } from './runs.js'

/** Whoever wakes up takes a core from a rank, and the other ranks wait for that one: seldom is cheaper than short. */
const millisecondsBetweenUpdates = 250
/** A comment now and then, so that nobody between takes the connection for dead. */
const updatesBetweenSigns = 60

export function streamRun(request: IncomingMessage, response: ServerResponse, run: Run, io: Io): void {
  response.writeHead(200, { 'Content-Type': 'text/event-stream; charset=utf-8' })
  const tail = tailOf(join(run.folder, 'metrics.jsonl'), io)
  let [known, sent, silent, told] = [Number(request.headers['last-event-id'] ?? 0) || 0, 0, 0, '']
  const say = (event: string, data: unknown) =>
    void response.write(`event: ${event}\nid: ${sent}\ndata: ${JSON.stringify(data)}\n\n`)
  const update = () => {
    if (response.writableNeedDrain) return
    const isOver = !run.isLive // asked before the lines are read: none follows then
    const { lines } = tail()
    const fresh = lines.slice(Math.max(0, known - sent))
    ;[sent, known] = [sent + lines.length, Math.max(known, sent)]
    if (fresh.length > 0) say('lines', shortened(fresh))
    const about = JSON.stringify({ ...run.summary, notes: run.notes })
    if (about !== told) say('run', JSON.parse(about))
    silent = fresh.length > 0 || about !== told ? 0 : silent + 1
    told = about
    if (silent > updatesBetweenSigns) {
      response.write(':\n\n')
      silent = 0
    }
    if (isOver && lines.length === 0) {
      say('end', { state: run.state })
      response.end()
    }
  }
  const timer = setInterval(update, millisecondsBetweenUpdates)
  response.on('close', () => clearInterval(timer))
  update()
}

/** Of a line what a page draws: what each rank did would be most of it. */
function shortened(lines: readonly string[]): (Partial<StepLine> | HealthEvent)[] {
  return linesOf(lines.join('\n')).flatMap((value): (Partial<StepLine> | HealthEvent)[] => {
    const event = eventOf(value)
    if (event) return [event]
    const step = stepOf(value)
    if (!step) return []
    const { ranks: _, cursor: __, experts: ___, ...rest } = step
    return [rest]
  })
}
