/** Node: a thread for code of other people's files. Main waits for its answers on shared memory, a little at a time. */
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker, workerData } from 'node:worker_threads'
import type { Work } from '../base/index.js'
import type { Enclosure, EnclosureLimits } from './platform.js'

/** How long main sleeps at once: in between, whoever waits may look for Ctrl-C. */
const pauseMs = 10

/** A thread that nobody has asked for so long is ended. */
const idleMs = 30_000

interface Thread {
  readonly worker: Worker
  readonly port: MessagePort
  /** 1: there is an answer. */
  readonly signal: Int32Array
  death?: string
}

interface Given {
  readonly opening: unknown
  readonly port: MessagePort
  readonly signal: Int32Array
}

type Answer = { readonly value: unknown } | { readonly error: string }

function start(module: URL, opening: unknown, { heapMiB }: EnclosureLimits): Thread {
  const signal = new Int32Array(new SharedArrayBuffer(4))
  const { port1: port, port2 } = new MessageChannel()
  const given: Given = { opening, port: port2, signal }
  const worker = new Worker(module, {
    ...{ workerData: given, transferList: [port2], stderr: false },
    ...(heapMiB !== undefined && { resourceLimits: { maxOldGenerationSizeMb: heapMiB } }),
  })
  const thread: Thread = { worker, port, signal }
  worker.on('error', (e: NodeJS.ErrnoException) => {
    thread.death = e.code === 'ERR_WORKER_OUT_OF_MEMORY' ? 'exceeds its memory limit' : e.message
  })
  worker.unref()
  return thread
}

export function enclose(module: URL, opening: unknown, limits: EnclosureLimits = {}): Enclosure {
  let running: Thread | undefined
  let idle: NodeJS.Timeout | undefined
  const end = (thread: Thread) => {
    if (thread === running) running = undefined
    void thread.worker.terminate()
  }
  return {
    *ask(question, mostMs): Work<unknown> {
      clearTimeout(idle)
      running ??= start(module, opening, limits)
      const thread = running
      let answer: Answer | undefined
      try {
        answer = yield* answerOf(thread, question, { mostMs, now: limits.now ?? (() => performance.now()) })
      } finally {
        if (!answer) end(thread)
        else idle = setTimeout(() => end(thread), idleMs).unref()
      }
      if ('error' in answer) throw new Error(answer.error)
      return answer.value
    },
  }
}

interface Patience {
  readonly mostMs: number
  readonly now: () => number
}

function* answerOf(thread: Thread, question: unknown, { mostMs, now }: Patience): Work<Answer> {
  const { port, signal } = thread
  Atomics.store(signal, 0, 0)
  port.postMessage(question)
  const until = now() + mostMs
  for (;;) {
    Atomics.wait(signal, 0, 0, pauseMs)
    const received = receiveMessageOnPort(port)
    if (received) return received.message as Answer // sent by answer, below
    if (thread.death !== undefined) throw new Error(thread.death)
    if (now() > until) throw new Error(`took longer than ${Math.round(mostMs / 1000)} s, and may never end`)
    yield 0
  }
}

/** In such a thread: answers, with what `open` makes of what the thread was opened with. */
export function answer(open: (opening: unknown) => Promise<(question: unknown) => unknown>): void {
  const { opening, port, signal } = workerData as Given // as start has made it
  const opened = open(opening)
  opened.catch(() => {}) // who asks is told
  port.on('message', async question => {
    let said: Answer
    try {
      said = { value: (await opened)(question) }
    } catch (e) {
      said = { error: e instanceof Error ? e.message : String(e) }
    }
    port.postMessage(said)
    Atomics.store(signal, 0, 1)
    Atomics.notify(signal, 0)
  })
}
