/** The runs of a server: each a process of its own, that goes on whether or not anybody looks. */
import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { faultNow, faultProblems, type Problem, save } from '../../base/index.js'
import type { StepView } from '../../calibrate/index.js'
import { refused } from '../../engine/native/run/phrases.js'
import type { Peaks, RunNote } from '../../train/index.js'
import { freeFolder } from '../files/latest-run.js'
import { loadAnyJob } from '../files/load.js'
import type { Io } from '../io.js'
import { Refused } from './answer.js'
import { confined, outsideProblems } from './confined.js'
import type { FromRun, Kept, RunFacts, RunRequest, ToRun } from './messages.js'

/** At once: they share the cores. */
export const mostRuns = 2

export type RunState = 'starting' | 'running' | 'done' | 'stopped' | 'failed'

/** A run as it is listed. */
export interface RunSummary {
  readonly id: string
  readonly name: string
  /** The run folder. */
  readonly folder: string
  readonly state: RunState
  /** It waits for its step and for the checkpoint of that. */
  readonly stopping?: boolean
  readonly started: string
  readonly facts?: RunFacts
  readonly memory?: Peaks
  /** Why it failed. */
  readonly problems: readonly Problem[]
}

const program = fileURLToPath(new URL('./run-process.js', import.meta.url))

export class Run {
  readonly id: string
  readonly name: string
  readonly folder: string
  readonly started = new Date().toISOString()
  readonly notes: RunNote[] = []
  state: RunState = 'starting'
  facts: RunFacts | undefined
  memory: Peaks | undefined
  problems: readonly Problem[] = []
  /** The last that were sent. */
  view: StepView | undefined
  readonly ended: Promise<void>
  readonly #process: ChildProcess
  #stopping = false
  readonly #keeping = new Map<string, (problem: string | undefined) => void>()
  readonly #waiting: ((view: StepView | undefined) => void)[] = []

  constructor(id: string, { request, place, name }: { request: RunRequest; place: string; name: string }) {
    ;[this.id, this.folder, this.name] = [id, place, name]
    this.#process = fork(program, { serialization: 'advanced', stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
    let said = ''
    this.#process.stderr?.on('data', (part: Buffer) => {
      said = (said + part).slice(-2000)
    })
    this.#process.on('message', (message: FromRun) => this.#hear(message))
    this.ended = new Promise(resolve => {
      this.#process.once('exit', (_, signal) => {
        if (this.isLive) this.#end(this.#stopping ? 'stopped' : 'failed', [lost(signal, said)])
        resolve()
      })
    })
    this.#tell({ kind: 'begin', request, place })
  }

  get isLive(): boolean {
    return this.state === 'starting' || this.state === 'running'
  }

  get summary(): RunSummary {
    const { id, name, folder, state, started, facts, memory, problems } = this
    const stopping = this.isLive && this.#stopping && { stopping: true }
    return {
      id,
      name,
      folder,
      state,
      ...stopping,
      started,
      problems,
      ...(facts && { facts }),
      ...(memory && { memory }),
    }
  }

  /** After the step, with a checkpoint, however long both take; asked again, at once and without one. */
  async stop(): Promise<void> {
    if (!this.isLive) return
    if (this.#stopping) this.#process.kill('SIGKILL')
    this.#stopping = true
    this.#tell({ kind: 'stop' })
    await this.ended
  }

  inject(text: string): void {
    if (this.state !== 'running' || !this.facts) throw new Refused(409, 'the run takes no steps')
    const { faults, problems } = faultNow(text, 1)
    const ranked = faults.filter(({ kind }) => kind !== 'flip') // whose parameter the run knows
    const all = [...problems, ...faultProblems(ranked, { ranks: this.facts.ranks, params: [] })]
    if (all.length > 0) throw new Refused(422, 'this cannot happen', all)
    this.#tell({ kind: 'fault', text })
  }

  /** Of the step that is being taken; of a run that has ended, of its last. */
  lastView(): Promise<StepView | undefined> {
    if (this.state !== 'running') return Promise.resolve(this.view)
    this.#tell({ kind: 'view' })
    return new Promise(resolve => this.#waiting.push(resolve))
  }

  /** Of the step that is being taken; it is there when this is done. */
  async keep(what: Kept, to: string): Promise<void> {
    if (this.state !== 'running') throw new Refused(404, 'the run takes no steps')
    const problem = await new Promise<string | undefined>(resolve => {
      this.#keeping.set(to, resolve)
      this.#tell({ kind: 'keep', what, to })
    })
    if (problem !== undefined) throw new Refused(503, problem)
  }

  #tell(message: ToRun): void {
    if (this.#process.connected) this.#process.send(message, () => {}) // it may have ended meanwhile
  }

  #hear(message: FromRun): void {
    if (message.kind === 'begun') [this.state, this.facts] = ['running', message.facts]
    else if (message.kind === 'memory') this.memory = message.memory
    else if (message.kind === 'note') this.notes.push(message.note)
    else if (message.kind === 'view') this.#answer(message.view)
    else if (message.kind === 'kept') this.#kept(message.to, message.problem)
    else this.#end(outcome(message.code), message.problems)
  }

  #answer(view: StepView | undefined): void {
    this.view = view ?? this.view
    for (const resolve of this.#waiting.splice(0)) resolve(this.view)
  }

  #kept(to: string, problem?: string): void {
    this.#keeping.get(to)?.(problem)
    this.#keeping.delete(to)
  }

  #end(state: RunState, problems: readonly Problem[]): void {
    ;[this.state, this.problems] = [state, problems]
    this.#answer(undefined)
    for (const to of [...this.#keeping.keys()]) this.#kept(to, 'the run has ended meanwhile: ask again')
  }
}

/** A run that was stopped while its loss was above where it began has a problem, and yet was stopped. */
const outcome = (code: number): RunState => (code === 0 ? 'done' : code === 130 ? 'stopped' : 'failed')

const lost = (signal: NodeJS.Signals | null, said: string): Problem => ({
  ...{ code: 'engine/failed', severity: 'error', path: '' },
  message: `the process of the run has ended${signal ? ` (${signal})` : ''}${said ? `: ${said.trim()}` : ''}`,
})

export class Runs {
  readonly #runs = new Map<string, Run>()
  readonly #io: Io
  readonly #folder: string
  #count = 0

  constructor(folder: string, io: Io) {
    this.#folder = folder
    this.#io = io
  }

  get all(): readonly Run[] {
    return [...this.#runs.values()]
  }

  of(id: string): Run {
    const run = this.#runs.get(id)
    if (!run) throw new Refused(404, `there is no run ${id}`)
    return run
  }

  /** Throws what is wrong with the job; what is found only when it is compiled, the run says. */
  async start(request: RunRequest): Promise<Run> {
    const path = request.from ?? '-'
    const io = confined(this.#io, this.#folder, { [path]: request.job })
    const { job, problems, locate } = await loadAnyJob(path, io)
    // Nothing is waited for from here on: two requests cannot both take the last place.
    if (this.all.filter(({ isLive }) => isLive).length >= mostRuns)
      throw new Refused(409, `${mostRuns} runs are active already: stop one of them first`, [
        refused('', 'engine/failed/busy', { runs: mostRuns }),
      ])
    const elsewhere = job ? outsideProblems(job, path, this.#folder).map(locate) : []
    if (!job || elsewhere.length > 0) throw new Refused(422, 'the job has problems', [...problems, ...elsewhere])
    const place = freeFolder(job, path === '-' ? 'run' : path, this.#io)
    this.#io.makeFolder(place)
    const { files } = request
    for (const [file, text] of Object.entries({ ...files, 'job.yaml': request.job }))
      save(join(place, file), text, this.#io)
    const id = String(++this.#count)
    const from = files ? { from: join(place, 'job.yaml') } : {}
    const run = new Run(id, { request: { ...request, ...from }, place, name: job.name ?? place })
    this.#runs.set(id, run)
    return run
  }

  async end(): Promise<void> {
    await Promise.all(this.all.map(run => run.stop()))
  }
}
