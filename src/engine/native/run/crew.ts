/** The threads of a run: asked for a step together, and heard when one of them fails or dies. */
import { failureClause, type Rank, type Reason, SpokenError } from '../../../base/index.js'
import { platform } from '../../../platform/index.js'
import { Status } from '../lower/commands.js'
import { Control } from '../lower/map.js'
import { defaultPatienceMs } from './limits.js'
import { Pool, type Thread } from './pool.js'
import type { Assignment, FromRank } from './protocol.js'
import type { Standstill, Watchdog } from './watchdog.js'

/** The words of shared memory main and ranks talk through: byte offsets. */
export interface Board {
  readonly words: Int32Array
  readonly control: number
  /** Status blocks, by rank. */
  readonly statuses: readonly number[]
}

export interface Trouble {
  /** Why a rank's thread is gone. */
  readonly dead: ReadonlyMap<Rank, Reason>
  /** What exec threw, or the name of the error it gave. */
  readonly failed: ReadonlyMap<Rank, string>
  /** Nobody got on for so long that the step was given up. */
  readonly still?: Standstill | undefined
}

export interface CrewOptions {
  /** Threads to use; without it the crew starts its own and ends them. */
  readonly pool?: Pool
  /** How long ranks are given to leave a step that has failed. */
  readonly timeoutMs: number
  readonly watchdog?: Watchdog | undefined
  /** Hears every message of a step. */
  readonly heard?: (message: FromRank) => void
  /** Whether a message of the step is still to come when all ranks are done. */
  readonly awaits?: () => boolean
  /** The error to throw, made while the memory is as the ranks left it. */
  readonly failure: (trouble: Trouble) => Error
}

export class Crew {
  readonly #board: Board
  readonly #control: number
  readonly #options: CrewOptions
  readonly #pool: Pool
  readonly #threads: Thread[]
  readonly #dead = new Map<Rank, Reason>()
  readonly #failed = new Map<Rank, string>()
  #still: Standstill | undefined
  #settle: () => void = () => {}
  #error: Error | undefined
  #stepping = false
  #stopped = false

  constructor(board: Board, options: CrewOptions) {
    this.#board = board
    this.#control = board.control / 4
    this.#options = options
    this.#pool = options.pool ?? new Pool()
    this.#threads = this.#pool.take(board.statuses.length)
  }

  /** Every thread is ready for the first step, or the first reason why one cannot be; `drawn` hears how far each is. */
  async start(
    assignmentOf: (rank: Rank) => Assignment,
    drawn: (rank: Rank, share: number) => void = () => {},
  ): Promise<void> {
    const ready = this.#threads.map(
      (thread, rank) =>
        new Promise<void>((resolve, reject) => {
          thread.busy()
          thread.onMessage = message => {
            if (message.type === 'drawing') drawn(rank, message.share)
            else if (message.type === 'ready') resolve()
            else reject(new Error(textOf(message)))
          }
          thread.onDeath = why => reject(new SpokenError(failureClause('.failed/not-started', { rank, why })))
          thread.load(assignmentOf(rank))
        }),
    )
    const failed = (await Promise.allSettled(ready)).find(result => result.status === 'rejected')
    if (failed) {
      await Promise.all(this.#threads.map(thread => thread.end()))
      throw failed.reason
    }
    for (const [rank, thread] of this.#threads.entries()) {
      thread.idle()
      thread.onMessage = message => this.#hear(message)
      thread.onDeath = reason => this.#bury(rank, reason)
    }
  }

  /** Throws unless a step may be asked for: until then the memory may not be written. */
  mustBeReady(): void {
    if (this.#stopped) throw new Error('the engine was stopped')
    if (this.#error) throw this.#error
    if (this.#dead.size > 0) throw this.#fail()
    if (this.#stepping) throw new Error('a step is under way: wait for it before asking for the next')
  }

  /** Every rank runs its list once. */
  async step(): Promise<void> {
    this.mustBeReady()
    this.#stepping = true
    for (const thread of this.#threads) thread.busy()
    const done = new Promise<void>(resolve => {
      this.#settle = resolve
    })
    Atomics.store(this.#board.words, this.#control + Control.running, this.#threads.length)
    this.#call()
    const leave = this.#options.watchdog?.watch(still => this.#giveUp(still))
    await done
    leave?.()
    // Messages of different threads come in any order: the last rank's may overtake that of the one that failed first.
    for (let i = 0; i < 1000 && !this.#stopped && this.#awaits(); i++)
      await new Promise<void>(resolve => platform.later(1, resolve))
    this.#stepping = false
    for (const thread of this.#threads) thread.idle()
    if (this.#stopped) throw new Error('the engine was stopped during the step')
    if (this.#failed.size > 0 || this.#dead.size > 0 || this.#still) throw this.#fail()
  }

  #awaits = (): boolean => this.#unheard() || (this.#dead.size === 0 && (this.#options.awaits?.() ?? false))

  /** Whether a rank that failed has not been heard yet. */
  #unheard(): boolean {
    const { words, statuses } = this.#board
    const failed = (rank: Rank) => Atomics.load(words, statuses[rank] / 4 + Status.error) !== 0
    return statuses.some((_, rank) => failed(rank) && !this.#failed.has(rank) && !this.#dead.has(rank))
  }

  /** Ends a rank's thread as a crash would: for tests of faults. */
  kill(rank: Rank): Promise<void> {
    return this.#threads[rank].end()
  }

  #call(): void {
    Atomics.add(this.#board.words, this.#control + Control.go, 1)
    Atomics.notify(this.#board.words, this.#control + Control.go)
  }

  #hear(message: FromRank): void {
    this.#options.heard?.(message)
    if (message.type === 'stepped') this.#settle()
    if (message.type !== 'failed') return
    this.#failed.set(message.rank, message.message)
    // A rank stuck in a kernel never sees the abort flag: after as long again the report goes out without it.
    platform.later(this.#options.timeoutMs, () => this.#settle())
  }

  /** Ranks that wait leave at once. One that never comes back from a kernel is left behind. */
  #giveUp(still: Standstill): void {
    this.#still = still
    Atomics.store(this.#board.words, this.#control + Control.abort, 1)
    platform.later(this.#options.timeoutMs, () => this.#settle())
  }

  /** A dead rank cannot count itself out: the step ends when the others have. */
  #bury(rank: Rank, reason: Reason): void {
    const { words, statuses } = this.#board
    this.#dead.set(rank, reason)
    Atomics.store(words, this.#control + Control.abort, 1)
    const asked = Atomics.load(words, this.#control + Control.go)
    const finished = Atomics.load(words, statuses[rank] / 4 + Status.done) === asked
    if (!finished && Atomics.sub(words, this.#control + Control.running, 1) === 1) this.#settle()
  }

  #fail(): Error {
    this.#error ??= this.#options.failure({ dead: this.#dead, failed: this.#failed, still: this.#still })
    return this.#error
  }

  /** Whether all threads are out of the memory: one that never comes back from a kernel is left behind. */
  async stop(): Promise<boolean> {
    if (this.#stopped) return true
    this.#stopped = true
    const within = new Set(this.#threads.filter(thread => !thread.dead))
    const left = [...within].map(
      thread =>
        new Promise<void>(resolve => {
          const leaves = () => {
            within.delete(thread)
            resolve()
          }
          thread.busy()
          thread.onDeath = leaves
          thread.onMessage = message => message.type === 'left' && leaves()
        }),
    )
    Atomics.store(this.#board.words, this.#control + Control.stop, 1)
    Atomics.store(this.#board.words, this.#control + Control.abort, 1)
    this.#call()
    const over = new Promise<void>(resolve => platform.later(this.#patienceMs, resolve))
    await Promise.race([Promise.all(left), over])
    for (const thread of within) thread.leaveBehind()
    this.#settle()
    this.#pool.give(this.#threads)
    if (!this.#options.pool) await this.#pool.close()
    return within.size === 0
  }

  /** How long ranks have to come back from what they are at; where a step has failed, they were asked to leave it before. */
  get #patienceMs(): number {
    const { timeoutMs } = this.#options
    const hasFailed = this.#error !== undefined || this.#still !== undefined
    return hasFailed ? timeoutMs : Math.max(timeoutMs, defaultPatienceMs)
  }
}

const textOf = (message: FromRank): string => (message.type === 'failed' ? message.message : message.type)
