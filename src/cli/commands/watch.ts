/** lockstep watch: a run live in the terminal, whoever runs it and wherever its folder is. */
import { dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { error, ProblemsError } from '../../base/index.js'
import { showEvent } from '../../health/index.js'
import { notBegun, paceOf, type RunProgress, tailOf, withLines } from '../../monitor/index.js'
import type { Io } from '../io.js'
import { lineOf } from '../text/display.js'
import { statusText, type Watched, watchJson, watchText } from '../text/watch-text.js'

export interface WatchOptions {
  readonly once?: boolean
  readonly json?: boolean
  /** Seconds between two looks. */
  readonly every: number
}

export async function watchCommand(path: string, options: WatchOptions, io: Io): Promise<number> {
  const look = watcherOf(path, io)
  if (options.once) {
    const seen = look()
    io.out(options.json ? `${JSON.stringify(watchJson(seen), null, 2)}\n` : `${watchText(seen, io).join('\n')}\n`)
    return 0
  }
  const show = options.json ? jsonLines(io) : io.terminal() ? picture(io) : plainLines(io)
  const sleep = new AbortController()
  let stopped: number | undefined
  const forget = io.onInterrupt(code => {
    stopped = code
    sleep.abort()
  })
  try {
    for (;;) {
      const seen = look()
      show(seen)
      const { status } = paceOf(seen.run, seen.steps, seen.age)
      if (status === 'done' || status === 'failed') return status === 'failed' ? 1 : 0
      await setTimeout(options.every * 1000, undefined, { signal: sleep.signal }).catch(() => {})
      if (stopped !== undefined) return stopped
      if (!io.isRead()) return 0
    }
  } finally {
    forget()
  }
}

/** Looks at the run again, and remembers what it has seen of it. */
function watcherOf(path: string, io: Io): () => Watched {
  const isFile = io.kindOf(path) === 'file'
  const [folder, metrics] = isFile ? [dirname(path), path] : [path, join(path, 'metrics.jsonl')]
  if (!io.exists(path))
    throw new ProblemsError([
      error(
        'run/unreadable',
        '',
        `${path} does not exist`,
        'name the folder that `lockstep train --out` or train.py wrote to',
      ),
    ])
  const tail = tailOf(metrics, io)
  let run: RunProgress = notBegun
  let seenAt: number | undefined
  const now = () => Date.now() / 1000
  return () => {
    const before = seenAt
    for (let more = true; more; ) {
      const { lines, anew } = tail()
      more = lines.length > 0
      if (more || anew) run = withLines(anew ? notBegun : run, lines)
      if (more) seenAt = now()
    }
    // Whoever has only just come asks the file; clocks of other hosts differ, so from then on what was seen here counts.
    const last = before === undefined ? io.modified(metrics) : seenAt
    seenAt = last ?? seenAt
    return { path, run, steps: stepsOf(folder, io), age: last === undefined ? undefined : Math.max(0, now() - last) }
  }
}

/** The steps of the job, where it is there and says so. */
function stepsOf(folder: string, io: Io): number | undefined {
  try {
    const { training } = JSON.parse(io.read(join(folder, 'job.json'))) as { training?: { steps?: unknown } }
    return typeof training?.steps === 'number' ? training.steps : undefined
  } catch {
    return undefined
  }
}

type Show = (seen: Watched) => void

function picture(io: Io): Show {
  let drawn = 0
  return seen => {
    const lines = watchText(seen, io)
    if (drawn > 0) io.control('out', `\x1b[${drawn}A\x1b[0J`)
    io.out(`${lines.join('\n')}\n`)
    drawn = lines.length
  }
}

/** A line a look, where something is new. */
function plainLines(io: Io): Show {
  let [step, events, silent] = [0, 0, false]
  return seen => {
    const { run, steps, age } = seen
    const pace = paceOf(run, steps, age)
    for (const event of run.events.slice(events)) io.out(`${showEvent(event)}\n`)
    const last = run.steps.at(-1)
    if (last && last.step !== step) io.out(`${lineOf(last, steps ?? last.step)}\n`)
    else if (pace.status === 'silent' && !silent) io.out(`${statusText(seen, pace)}\n`)
    ;[step, events, silent] = [last?.step ?? 0, run.events.length, pace.status === 'silent']
  }
}

/** An object a line, where something is new. */
function jsonLines(io: Io): Show {
  let before = ''
  return seen => {
    const { run, steps, age } = seen
    const key = JSON.stringify([run.steps.at(-1)?.step, run.events.length, paceOf(run, steps, age).status])
    if (key !== before) io.out(`${JSON.stringify(watchJson(seen))}\n`)
    before = key
  }
}
