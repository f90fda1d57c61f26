/** The run that the page shows. It outlives the page's being left for another: a run goes on until it ends or is stopped. */
import { effect, signal } from '@preact/signals'
import type { HealthEvent, Peaks, Problem, RunNote, StepView } from 'lockstep'
import { busy } from '../../base/isolation.js'
import { language } from '../../base/language.js'
import { problemPhrasesZh } from '../../text/problems.zh.js'
import { speakZh } from '../../text/tongue.zh.js'
import type { Line, RunFacts, Told } from '../../work/run.js'
import { type Driver, type Ended, type Heard, type Request, startInPage } from './driver.js'
import { followMachine, type RunSummary, startOnMachine } from './machine.js'

export interface Shown {
  readonly where: 'page' | 'machine'
  readonly state: 'starting' | 'running' | 'stopping' | Ended['state']
  readonly facts?: RunFacts
  readonly memory?: Peaks
  readonly view?: StepView
  /** By step, one as long as the other; NaN: not known. */
  readonly steps: readonly number[]
  readonly losses: readonly number[]
  readonly held: readonly number[]
  readonly last?: Line
  readonly events: readonly HealthEvent[]
  /** As they are said in the language of the page. */
  readonly notes: readonly (() => string)[]
  readonly samples: readonly { readonly step: number; readonly text: string }[]
  readonly problems: readonly Problem[]
  readonly files: Ended['files']
  /** The step that files of a run that goes on were left by. */
  readonly kept?: number | undefined
}

export const shown = signal<Shown | undefined>(undefined)
let driver: Driver | undefined
/** Answers of a run that is no longer shown are dropped. */
let generation = 0

export const isLive = (run: Shown | undefined): boolean =>
  run?.state === 'starting' || run?.state === 'running' || run?.state === 'stopping'

effect(() => {
  busy.value = shown.value?.where === 'page' && isLive(shown.value)
})

const begun = (where: Shown['where']): Shown => ({
  ...{ where, state: 'starting', steps: [], losses: [], held: [] },
  ...{ events: [], notes: [], samples: [], problems: [], files: [] },
})

export async function start(where: Shown['where'], request: Request): Promise<Driver> {
  const heard = freshly(where)
  const own = generation
  const started = where === 'page' ? startInPage(request, heard) : await startOnMachine(request, heard)
  if (own === generation) driver = started
  else started.leave() // another was chosen meanwhile
  if (own === generation && shown.peek()?.state === 'stopping') started.stop() // nobody could be told before
  return started
}

export function follow(run: RunSummary): void {
  const heard = freshly('machine')
  driver = followMachine(run, heard)
}

function freshly(where: Shown['where']): Heard {
  driver?.leave()
  driver = undefined
  const own = ++generation
  shown.value = begun(where)
  const put = (next: (run: Shown) => Shown) => {
    if (own === generation && shown.value) shown.value = next(shown.value)
  }
  return {
    told: told => put(run => withTold(run, told)),
    noted: note => put(run => withNote(run, note)),
    files: (files, kept) => put(run => ({ ...run, files: instead(run, files), kept })),
    ended: ended => put(run => ({ ...run, ...ended, files: instead(run, ended.files), kept: undefined })),
  }
}

export function stop(): void {
  driver?.stop()
  if (shown.value && isLive(shown.value)) shown.value = { ...shown.value, state: 'stopping' }
}

export const fault = (text: string): void => driver?.fault(text)
export const look = (): void => driver?.look()
export const keep = (): void => driver?.keep()

/** What nobody can reach any more is given back. */
function instead(run: Shown, files: Ended['files']): Ended['files'] {
  for (const { href } of run.files) if (href.startsWith('blob:')) URL.revokeObjectURL(href)
  return files
}

function withTold(run: Shown, told: Told): Shown {
  switch (told.kind) {
    case 'facts':
      return { ...run, facts: told.facts, state: run.state === 'starting' ? 'running' : run.state }
    case 'memory':
      return { ...run, memory: told.memory }
    case 'note':
      return withNote(run, () => noteSaid(told.note))
    case 'view':
      return { ...run, view: told.view }
    case 'left':
      return run
    case 'lines':
      return withLines(run, told.lines)
  }
}

const mostNotes = 20

const withNote = (run: Shown, note: () => string): Shown => ({ ...run, notes: [...run.notes, note].slice(-mostNotes) })

/** What has no phrase is the command's own, in English. */
const noteSaid = ({ text, said }: RunNote): string =>
  language.value === 'zh' && said ? speakZh(said, problemPhrasesZh)[0] : text

function withLines(run: Shown, lines: readonly (Line | HealthEvent)[]): Shown {
  const steps = lines.filter((line): line is Line => !('event' in line))
  const events = lines.filter((line): line is HealthEvent => 'event' in line)
  const known = { steps: [...run.steps], losses: [...run.losses], held: [...run.held] }
  for (const { step, loss, evalLoss, skipped } of steps) {
    known.steps.push(step)
    known.losses.push(skipped === undefined ? (loss ?? Number.NaN) : Number.NaN)
    known.held.push(evalLoss ?? Number.NaN)
  }
  const samples = steps.flatMap(({ step, sample }) => (sample === undefined ? [] : [{ step, text: sample }]))
  return {
    ...{ ...run, ...known, events: [...run.events, ...events] },
    samples: [...run.samples, ...samples].slice(-mostNotes),
    ...(steps.length > 0 && { last: steps.at(-1)! }),
  }
}
