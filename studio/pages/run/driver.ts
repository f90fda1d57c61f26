/** What drives a run, here or on the machine: the page tells both the same, and hears the same from both. */
import type { Problem } from 'lockstep'
import { threads } from '../../base/isolation.js'
import { ask, Refused } from '../../work/ask.js'
import type { Left, Order, Outcome, Told } from '../../work/run.js'
import { cores } from './link.js'

export interface Request {
  readonly job: string
  /** Texts that jobs may name. */
  readonly files: Readonly<Record<string, string>>
  /** The path of the job on the machine, whose folder its data is sought from. */
  readonly from?: string
  readonly steps: number
  readonly sample: string
  readonly keepGoing: boolean
  /** Whether files are wanted in the end. */
  readonly leaves: boolean
}

export interface Ended {
  readonly state: Outcome['state']
  readonly problems: readonly Problem[]
  readonly files: readonly RunFile[]
}

export interface RunFile {
  readonly name: string
  readonly href: string
  /** Saves it where the link alone would be refused. */
  readonly take?: () => void
}

export interface Heard {
  told(told: Told): void
  /** Something that happened beside it, in the language of the page whenever it is shown. */
  noted(note: () => string): void
  /** Of a run that goes on; `step`: the one that they were left by, where they are not made anew each time. */
  files(files: Ended['files'], step?: number): void
  ended(ended: Ended): void
}

export interface Driver {
  /** Of a run on the machine. */
  readonly id?: string
  /** After the step; asked again, at once. */
  stop(): void
  fault(text: string): void
  /** Asks for the last step. */
  look(): void
  /** Asks for files of the step that was taken last. */
  keep(): void
  /** Nobody listens any more; a run on the machine goes on. */
  leave(): void
}

export function startInPage({ job, files, steps, sample, keepGoing, leaves }: Request, heard: Heard): Driver {
  const name = `lockstep-run-${crypto.randomUUID()}`
  const channel = new BroadcastChannel(name)
  const ending = new AbortController()
  let [stopping, over] = [false, false]
  const tell = (order: Order) => over || channel.postMessage(order) // a timer may ask once more when it is
  const input = { job, files, steps, threads: threads.value, cores, channel: name, keepGoing, leaves }
  const progress = (value: unknown) => {
    const told = value as Told // what the worker tells
    if (told.kind === 'left') heard.files(filesOf(job, told.left), told.step)
    else heard.told(told)
  }
  const options = { progress, signal: ending.signal }
  ask('long', ['run', 'train'], sample === '' ? input : { ...input, sample }, options)
    .then(outcome => heard.ended({ ...outcome, files: leaves ? filesOf(job, outcome) : [] }))
    .catch((e: unknown) => {
      const message = e instanceof Refused ? e.why.message : String(e)
      const failed: Problem = { code: 'engine/failed', severity: 'error', path: '', message }
      heard.ended({ state: stopping ? 'stopped' : 'failed', problems: stopping ? [] : [failed], files: [] })
    })
    .finally(() => {
      over = true
      channel.close()
    })
  return {
    stop() {
      if (stopping) ending.abort()
      stopping = true
      tell({ kind: 'stop' })
    },
    fault: text => tell({ kind: 'fault', text }),
    look: () => tell({ kind: 'view' }),
    keep: () => tell({ kind: 'keep' }),
    leave: () => ending.abort(),
  }
}

function filesOf(job: string, { trace, metrics, checkpoint }: Left): Ended['files'] {
  const file = (name: string, parts: readonly BlobPart[], type: string) => ({
    name,
    href: URL.createObjectURL(new Blob([...parts], { type })),
  })
  return [
    ...(trace === undefined ? [] : [file('trace.json', [trace], 'application/json')]),
    file('metrics.jsonl', [metrics], 'text/plain'),
    file('job.yaml', [job], 'text/plain'),
    ...(checkpoint ? [file('checkpoint.tar', checkpoint, 'application/x-tar')] : []),
  ]
}
