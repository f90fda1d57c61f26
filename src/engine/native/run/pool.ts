/**
 * Threads for ranks. Starting one costs tens of milliseconds, so whoever runs many programs keeps a pool: a thread that
 * has left one program takes the next.
 */
import type { Reason } from '../../../base/index.js'
import { platform, type ThreadHandle } from '../../../platform/index.js'
import type { Assignment, FromRank, ToRank } from './protocol.js'

const worker = new URL('./worker.js', import.meta.url)

export class Thread {
  onMessage: (message: FromRank) => void = () => {}
  /** The thread is gone: why. */
  onDeath: (reason: Reason) => void = () => {}
  dead = false
  readonly #handle: ThreadHandle<ToRank>

  constructor() {
    this.#handle = platform.spawn<ToRank, FromRank>(worker, {
      message: message => this.onMessage(message),
      death: reason => this.#die(reason),
    })
    this.idle()
  }

  load(assignment: Assignment): void {
    this.#handle.post({ type: 'load', assignment })
  }

  /** Keeps the process alive; an idle thread does not, so a forgotten engine is no hang. */
  busy(): void {
    this.#handle.keepAlive(true)
  }

  idle(): void {
    this.#handle.keepAlive(false)
  }

  async end(): Promise<void> {
    await this.#handle.end()
  }

  /** It is stuck in native code, and nobody gets it back. */
  leaveBehind(): void {
    this.dead = true
    this.#handle.leaveBehind()
  }

  #die(reason: Reason): void {
    if (this.dead) return
    this.dead = true
    this.onDeath(reason)
  }
}

/** A pool of worker threads that engines and groups reuse, since starting one takes tens of milliseconds. */
export class Pool {
  #free: Thread[] = []

  take(count: number): Thread[] {
    this.#free = this.#free.filter(thread => !thread.dead)
    const kept = this.#free.splice(0, count)
    return [...kept, ...Array.from({ length: count - kept.length }, () => new Thread())]
  }

  give(threads: readonly Thread[]): void {
    for (const thread of threads) {
      thread.onMessage = () => {}
      thread.onDeath = () => {}
      thread.idle()
    }
    this.#free.push(...threads.filter(thread => !thread.dead))
  }

  async close(): Promise<void> {
    await Promise.all(this.#free.splice(0).map(thread => thread.end()))
  }
}
