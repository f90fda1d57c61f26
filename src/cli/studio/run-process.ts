/**
 * The process of one run: `lockstep train`, told what to do by the server instead of by a command line. What kills it kills nothing
 * else, and it does not outlive the server.
 */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type Problem, ProblemsError, save, worldOf } from '../../base/index.js'
import { stepViewer } from '../../calibrate/index.js'
import { thisHost } from '../../node/index.js'
import { planTitle } from '../../plan/index.js'
import { printChrome } from '../../trace/index.js'
import { injectNow, openCheckpoints, peaksOf, type Session } from '../../train/index.js'
import { type TrainOptions, trainCommand } from '../commands/train.js'
import type { Guest } from '../commands/train-session.js'
import { type Io, processIo } from '../io.js'
import { confined } from './confined.js'
import type { FromRun, RunRequest, ToRun } from './messages.js'

const tell = (message: FromRun): void => void process.send?.(message)

type Keeping = Extract<ToRun, { kind: 'keep' }>

/** What was asked for while the run goes on. */
class Control {
  readonly faults: string[] = []
  readonly keeping: Keeping[] = []
  wantsView = false
  #stop: ((code: number) => void) | undefined
  #stopped = false

  /** As a command hears Ctrl-C. */
  readonly onInterrupt = (stop: (code: number) => void): (() => void) => {
    this.#stop = stop
    if (this.#stopped) stop(130)
    return () => {
      this.#stop = undefined
    }
  }

  stop(): void {
    this.#stopped = true
    this.#stop?.(130)
  }
}

/** A run is shown by its folder; of the rest the server is told. */
function guestOf(control: Control, place: string): Guest {
  let first = true
  const viewer = stepViewer(thisHost())
  const look = (session: Session) => viewer.look(session, view => tell({ kind: 'view', view }))
  return {
    display(session) {
      const { job, program, dataset, trainer } = session
      const { steps } = job.training
      tell({
        kind: 'begun',
        facts: {
          ...{ ranks: worldOf(program.mesh), steps, kernels: trainer.description },
          ...{ data: dataset.description, plan: planTitle(job.plan) },
          said: { kernels: trainer.said, data: dataset.said },
        },
      })
      return {
        step() {
          if (first) tell({ kind: 'memory', memory: peaksOf(session) })
          first = false
        },
        event() {},
        note: text => tell({ kind: 'note', note: { text } }),
        finish() {
          if (first) return
          tell({ kind: 'memory', memory: peaksOf(session) })
          look(session)
        },
      }
    },
    async between(session) {
      if (control.wantsView && viewer.isDue()) {
        control.wantsView = false
        look(session)
      }
      for (const keeping of control.keeping.splice(0)) keep(keeping, session, place)
      for (const text of control.faults.splice(0)) tell({ kind: 'note', note: await injectNow(text, session) })
    },
  }
}

/** Beside what the run itself writes and locks; what cannot be written ends nothing. */
function keep({ what, to }: Keeping, session: Session, place: string): void {
  const io = processIo()
  try {
    if (what === 'trace') save(to, printChrome(session.program, session.trainer.spans), io)
    else {
      const read = join(place, 'tokenizer.json')
      const tokenizer = io.exists(read) ? io.read(read) : undefined
      const checkpoints = openCheckpoints(to, session, { files: io, run: randomUUID(), tokenizer })
      checkpoints.save()
      checkpoints.close()
    }
    tell({ kind: 'kept', to })
  } catch (e) {
    tell({ kind: 'kept', to, problem: e instanceof Error ? e.message : String(e) })
  }
}

/** Nothing is printed; problems that a command prints as JSON are kept. */
function quietIo(request: RunRequest, control: Control, problems: Problem[]): Io {
  const io = confined(processIo(), process.cwd(), { [nameOf(request)]: request.job })
  return {
    ...io,
    out(text) {
      const said = text.startsWith('{"ok":false') ? (JSON.parse(text) as { problems?: Problem[] }) : {} // printed by train
      problems.push(...(said.problems ?? []))
    },
    err: text => tell({ kind: 'note', note: { text: text.trimEnd() } }),
    control() {},
    terminal: () => undefined,
    progressColumns: () => undefined,
    ask: async () => undefined,
    onInterrupt: control.onInterrupt,
    colors: false,
  }
}

/** Data is sought beside the job; `-` is a job without a place. */
const nameOf = ({ from = '-' }: RunRequest): string => from

async function run({ request, place }: Extract<ToRun, { kind: 'begin' }>, control: Control): Promise<void> {
  const problems: Problem[] = []
  const { job: _, from: __, files: ___, save: saves = true, ...asked } = request
  const options = {
    ...{ kernels: 'auto', ...asked, out: place, json: true, trace: `${place}/trace.json` },
    ...(saves && { save: `${place}/checkpoints` }),
    guest: guestOf(control, place),
  } as TrainOptions // what was not asked for is not there
  const code = await trainCommand(nameOf(request), options, quietIo(request, control, problems)).catch(e => {
    if (!(e instanceof ProblemsError)) throw e
    problems.push(...e.problems)
    return 1
  })
  tell({ kind: 'ended', code, problems })
}

/** Long enough to write a checkpoint when the server has ended. */
const lastMilliseconds = 10_000

if (process.send) {
  const control = new Control()
  const handlers: { readonly [K in ToRun['kind']]: (message: Extract<ToRun, { kind: K }>) => void } = {
    begin: message => void run(message, control).then(() => process.disconnect()),
    stop: () => control.stop(),
    fault: ({ text }) => void control.faults.push(text),
    keep: message => void control.keeping.push(message),
    view: () => {
      control.wantsView = true
    },
  }
  process.on('message', (message: ToRun) => (handlers[message.kind] as (message: ToRun) => void)(message)) // by its own kind
  process.on('disconnect', () => {
    control.stop()
    void setTimeout(lastMilliseconds, undefined, { ref: false }).then(() => process.exit(1))
  })
  process.on('SIGINT', () => {}) // the server, which hears it too, says when to stop
}
