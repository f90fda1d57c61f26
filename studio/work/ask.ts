/**
 * Asking the core, which lives in workers. `fast` is one worker that answers in order (prices, schedules); `program` is another, for what
 * is compiled and simulated, so that a control is answered meanwhile and what was compiled can be asked about again. A `long` question
 * (search, proofs, training) has a worker of its own, which ends when nobody wants the answer any more.
 */
import type { Input, ModuleName, Output, WorkName } from './modules.js'
import type { Question, Refusal, Reply } from './protocol.js'

export type Lane = 'fast' | 'program' | 'long'

/** What a page shows when the core says no. */
export class Refused extends Error {
  readonly why: Refusal
  constructor(why: Refusal) {
    super(why.message)
    this.why = why
  }
}

interface Waiting {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
  readonly progress: (value: unknown) => void
}

class CoreWorker {
  readonly #worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' })
  readonly #waiting = new Map<number, Waiting>()
  #early: Question[] | undefined = []
  #next = 0
  dead = false

  constructor() {
    this.#worker.addEventListener('message', ({ data }: MessageEvent<Reply>) => this.#hear(data))
    this.#worker.addEventListener('error', event => this.end(event.message || 'the worker could not be started'))
  }

  get busy(): boolean {
    return this.#waiting.size > 0
  }

  ask(question: Omit<Question, 'id'>, progress: (value: unknown) => void): Promise<unknown> {
    const id = this.#next++
    const asked = { id, ...question }
    if (this.#early) this.#early.push(asked)
    else this.#worker.postMessage(asked)
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject, progress }))
  }

  end(reason: string): void {
    this.dead = true
    this.#worker.terminate()
    for (const { reject } of this.#waiting.values()) reject(new Refused({ message: reason, problems: [] }))
    this.#waiting.clear()
  }

  #hear(reply: Reply): void {
    if (reply.type === 'ready') {
      for (const question of this.#early ?? []) this.#worker.postMessage(question)
      this.#early = undefined
      return
    }
    const waiting = this.#waiting.get(reply.id)
    if (!waiting) return
    if (reply.type !== 'progress') this.#waiting.delete(reply.id)
    if (reply.type === 'progress') waiting.progress(reply.value)
    else if (reply.type === 'answer') waiting.resolve(reply.value)
    else waiting.reject(new Refused(reply.why))
  }
}

const kept = new Map<Lane, CoreWorker>()
/** Workers of long questions that have been answered: starting one takes longer than most of them. */
const rested: CoreWorker[] = []

function workerOf(lane: Lane): CoreWorker {
  if (lane === 'long') return rested.pop() ?? new CoreWorker()
  const known = kept.get(lane)
  if (known && !known.dead) return known
  const worker = new CoreWorker()
  kept.set(lane, worker)
  return worker
}

/** What was asked ahead, until somebody asks it. */
let ahead: { readonly key: string; readonly answer: Promise<unknown> } | undefined

const keyOf = (question: Omit<Question, 'id'>): string => JSON.stringify(question)

/**
 * Asks what a page is about to ask, so that the worker begins while the page is still drawn: a slider's price. Only of a worker that is
 * free, since of the questions that come while one works only the last is asked.
 */
export function askAhead<M extends ModuleName, F extends WorkName<M>>(
  [module, name]: readonly [M, F],
  input: Input<M, F>,
): void {
  const worker = workerOf('fast')
  if (worker.busy) return
  const question = { module, name, input }
  const answer = worker.ask(question, () => {})
  answer.catch(() => {}) // whoever asks hears why
  ahead = { key: keyOf(question), answer }
}

/** What was asked ahead is asked by nobody twice. */
function asked(lane: Lane, question: Omit<Question, 'id'>): Promise<unknown> | undefined {
  if (lane !== 'fast' || ahead?.key !== keyOf(question)) return
  const { answer } = ahead
  ahead = undefined
  return answer
}

export interface AskOptions {
  readonly progress?: (value: unknown) => void
  /** Only a long question can be given up: its worker ends. */
  readonly signal?: AbortSignal
}

export async function ask<M extends ModuleName, F extends WorkName<M>>(
  lane: Lane,
  [module, name]: readonly [M, F],
  input: Input<M, F>,
  { progress = () => {}, signal }: AskOptions = {},
): Promise<Output<M, F>> {
  const early = asked(lane, { module, name, input })
  if (early) return (await early) as Output<M, F> // that very question
  const worker = workerOf(lane)
  const giveUp = () => worker.end('given up')
  if (lane === 'long') signal?.addEventListener('abort', giveUp)
  try {
    return (await worker.ask({ module, name, input }, progress)) as Output<M, F> // the worker ran that very function
  } finally {
    signal?.removeEventListener('abort', giveUp)
    if (lane === 'long' && !worker.dead && rested.length < 2) rested.push(worker)
    else if (lane === 'long') worker.end('done')
  }
}
