/**
 * A run in the page: the trainer lives in this worker, its ranks in workers of their own. What it tells is what `lockstep studio` tells of
 * a run on the machine, so one page shows both; what it is told comes over a channel, between two steps.
 */
import {
  archiveOf,
  type HealthEvent,
  injectNow,
  keepGoing,
  memoryFiles,
  openCheckpoints,
  openData,
  type Peaks,
  type Problem,
  ProblemsError,
  peaksOf,
  printChrome,
  type RunNote,
  type Sampler,
  type Session,
  type Spoken,
  type StepRecord,
  type StepView,
  samplerOf,
  startSession,
  train as steps,
  stepViewer,
  watchRun,
  worldOf,
} from 'lockstep'
import { readJob } from './jobs.js'
import type { Context } from './modules.js'

export interface TrainInput {
  readonly job: string
  /** Texts that the job names. */
  readonly files: Readonly<Record<string, string>>
  readonly steps?: number
  /** Ranks are threads, or all of them one interpreter. */
  readonly threads: boolean
  readonly cores: number
  /** What the model goes on from at each evaluation. */
  readonly sample?: string
  readonly keepGoing?: boolean
  /** Whether files are wanted in the end: a trace and a checkpoint take time and room. */
  readonly leaves?: boolean
  /** The name of the channel on which it is told what to do. */
  readonly channel: string
}

export type Order =
  | { readonly kind: 'stop' }
  | { readonly kind: 'view' }
  /** Hands out files of the step that was taken last. */
  | { readonly kind: 'keep' }
  | { readonly kind: 'fault'; readonly text: string }

export interface RunFacts {
  readonly ranks: number
  readonly steps: number
  readonly kernels: string
  readonly data: string
  /** Both as phrases, where they are. */
  readonly said?: { readonly kernels?: Spoken | undefined; readonly data?: Spoken | undefined }
}

/** A step as a page draws it. */
export type Line = Pick<StepRecord, 'step' | 'loss' | 'seconds' | 'tokensPerSecond'> &
  Partial<Pick<StepRecord, 'evalLoss' | 'gradientNorm' | 'lr' | 'sample' | 'shares' | 'skipped'>>

export type Told =
  | { readonly kind: 'facts'; readonly facts: RunFacts }
  | { readonly kind: 'lines'; readonly lines: readonly (Line | HealthEvent)[] }
  | { readonly kind: 'memory'; readonly memory: Peaks }
  | { readonly kind: 'note'; readonly note: RunNote }
  | { readonly kind: 'view'; readonly view: StepView }
  | { readonly kind: 'left'; readonly step: number; readonly left: Left }

/** What a run leaves, so far or in the end. */
export interface Left {
  readonly metrics: string
  /** Of the last step; without threads nothing was measured. */
  readonly trace?: string
  readonly checkpoint?: readonly Uint8Array<ArrayBuffer>[]
}

export interface Outcome extends Left {
  readonly state: 'done' | 'stopped' | 'failed'
  readonly problems: readonly Problem[]
}

export async function train(input: TrainInput, { progress }: Context): Promise<Outcome> {
  const tell = progress as (told: Told) => void // the page reads nothing else
  const orders = new Orders(input.channel)
  const lines = new Lines(tell)
  try {
    const { session, sampler, save } = await started(input, tell, event => lines.add(event))
    try {
      const left = () => ({ metrics: lines.text, ...traceOf(session), checkpoint: save() })
      const state = await followed(session, { input, orders, lines, tell, sampler, left })
      return { state, problems: [], ...(input.leaves ? left() : { metrics: lines.text }) }
    } finally {
      await session.stop()
    }
  } catch (e) {
    if (!(e instanceof ProblemsError)) throw e
    return { state: 'failed', problems: e.problems, metrics: lines.text }
  } finally {
    lines.flush()
    orders.close()
  }
}

type Tell = (told: Told) => void

async function started(input: TrainInput, tell: Tell, heard: (event: HealthEvent) => void) {
  const asked = readJob(input.job)
  const job = input.steps === undefined ? asked : { ...asked, training: { ...asked.training, steps: input.steps } }
  const files = memoryFiles(input.files)
  const { dataset, tokenizer } = await openData(job, files)
  const kernels = input.threads ? 'wasm' : 'reference'
  const begin = input.keepGoing ? keepGoing : startSession
  const session = await begin(job, dataset, { kernels, measure: input.threads, heard })
  const ranks = worldOf(session.program.mesh)
  const { description, said } = session.trainer
  const named = { kernels: description, data: dataset.description, said: { kernels: said, data: dataset.said } }
  tell({ kind: 'facts', facts: { ranks, steps: job.training.steps, ...named } })
  const sampler = input.sample === undefined ? undefined : await samplerOf(job, tokenizer, { prompt: input.sample })
  const save = () => {
    files.remove('checkpoint') // of an earlier step
    const checkpoints = openCheckpoints('checkpoint', session, { files, run: crypto.randomUUID(), tokenizer })
    checkpoints.save()
    checkpoints.close()
    return [...archiveOf('checkpoint', files)]
  }
  return { session, sampler, save }
}

interface Following {
  readonly input: TrainInput
  readonly orders: Orders
  readonly lines: Lines
  readonly tell: Tell
  readonly sampler: Sampler | undefined
  readonly left: () => Left
}

async function followed(session: Session, { input, orders, lines, tell, sampler, left }: Following) {
  const { job, program } = session
  const viewer = stepViewer({ cpu: 'this browser', cores: input.cores, memory: 2 ** 32 })
  const view = () => viewer.look(session, view => view && tell({ kind: 'view', view }))
  const watch = watchRun({ path: '', job, mesh: program.mesh, crowded: true })
  let first = true
  for await (const { events: told = [], ...record } of steps(session)) {
    const sample = record.evalLoss === undefined ? undefined : await sampler?.sample(session)
    lines.add({ ...record, ...(sample !== undefined && { sample }) })
    for (const event of [...told, ...watch(record)]) lines.add(event)
    if (first) tell({ kind: 'memory', memory: peaksOf(session) })
    first = false
    await nextTask() // orders come in between
    if (orders.stopped) break
    if (viewer.isDue() && orders.wantsView()) view()
    if (orders.wantsFiles()) tell({ kind: 'left', step: session.behind, left: left() })
    for (const text of orders.faults()) tell({ kind: 'note', note: await injectNow(text, session) })
  }
  lines.flush()
  tell({ kind: 'memory', memory: peaksOf(session) })
  view()
  return session.behind < job.training.steps ? 'stopped' : 'done'
}

const nextTask = () => new Promise(resolve => setTimeout(resolve))

const traceOf = ({ program, trainer }: Session): Pick<Left, 'trace'> =>
  trainer.concurrent ? { trace: printChrome(program, trainer.spans) } : {}

/** What the page wants. */
class Orders {
  readonly #channel: BroadcastChannel
  #faults: string[] = []
  #view = false
  #keep = false
  stopped = false

  constructor(name: string) {
    this.#channel = new BroadcastChannel(name)
    this.#channel.onmessage = ({ data }: MessageEvent<Order>) => {
      if (data.kind === 'stop') this.stopped = true
      else if (data.kind === 'view') this.#view = true
      else if (data.kind === 'keep') this.#keep = true
      else this.#faults.push(data.text)
    }
  }

  faults = (): readonly string[] => this.#faults.splice(0)

  wantsView(): boolean {
    const wants = this.#view
    this.#view = false
    return wants
  }

  wantsFiles(): boolean {
    const wants = this.#keep
    this.#keep = false
    return wants
  }

  close(): void {
    this.#channel.close()
  }
}

/** Ten times a second at most; all of them are kept as the metrics of the run. */
class Lines {
  readonly #tell: Tell
  readonly #all: string[] = []
  #waiting: (Line | HealthEvent)[] = []
  #told = Number.NEGATIVE_INFINITY

  constructor(tell: Tell) {
    this.#tell = tell
  }

  get text(): string {
    return this.#all.map(line => `${line}\n`).join('')
  }

  add(line: StepRecord | HealthEvent): void {
    this.#all.push(JSON.stringify(line))
    this.#waiting.push('event' in line ? line : brief(line as StepRecord)) // events have a name, steps have none
    if (performance.now() - this.#told >= 100) this.flush()
  }

  flush(): void {
    if (this.#waiting.length === 0) return
    this.#told = performance.now()
    this.#tell({ kind: 'lines', lines: this.#waiting })
    this.#waiting = []
  }
}

const brief = ({ step, loss, seconds, tokensPerSecond, ...rest }: StepRecord): Line => {
  const { evalLoss, gradientNorm, lr, sample, shares, skipped } = rest
  return {
    ...{ step, loss, seconds, tokensPerSecond, gradientNorm, lr },
    ...(evalLoss !== undefined && { evalLoss }),
    ...(sample !== undefined && { sample }),
    ...(shares && { shares }),
    ...(skipped !== undefined && { skipped }),
  }
}
