/**
 * Threads for ranks. Starting one costs tens of milliseconds, so whoever runs many programs keeps a pool: a thread that
 * has left one program takes the next.
 */
import { Worker } from 'node:worker_threads'
import type { Assignment, FromRank, ToRank } from './protocol.js'

export class Thread {
  onMessage: (message: FromRank) => void = () => {}
  /** The thread is gone: why. */
  onDeath: (reason: string) => void = () => {}
  dead = false
  readonly #worker: Worker

  constructor() {
    this.#worker = new Worker(new URL('./worker.js', import.meta.url), { stderr: false })
    this.#worker.on('message', (message: FromRank) => this.onMessage(message))
    this.#worker.on('error', error => this.#die((error as Error).message))
    this.#worker.on('exit', code => this.#die(`its thread ended with code ${code}`))
    this.idle()
  }

  load(assignment: Assignment): void {
    const message: ToRank = { type: 'load', assignment }
    this.#worker.postMessage(message)
  }

  /** Keeps the process alive; an idle thread does not, so a forgotten engine is no hang. */
  busy(): void {
    this.#worker.ref()
  }

  idle(): void {
    this.#worker.unref()
  }

  async end(): Promise<void> {
    await this.#worker.terminate()
  }

  #die(reason: string): void {
    if (this.dead) return
    this.dead = true
    this.onDeath(reason)
  }
}

export class Pool {
  #free: Thread[] = []

  take(count: number): Thread[] {
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
