/**
 * Notices a step that stands still. A rank may be in a command for as long as that command has ever taken, several times over, or,
 * before it was ever measured, as long as a very slow machine would need; and never for less than a few seconds. Ranks that wait may
 * wait as long as another gets on. All that it costs is a look at the status blocks now and then.
 */
import type { Program } from '../../../ir/index.js'
import { platform } from '../../../platform/index.js'
import { Status } from '../lower/commands.js'
import { Hand } from '../lower/list.js'
import type { LoweredProgram } from '../lower/lowered.js'
import { streamOf } from '../lower/map.js'

export interface WatchdogOptions {
  readonly program: Program
  readonly lowered: LoweredProgram
  readonly words: Int32Array
  /** The least time that a step may stand still. */
  readonly patienceMs: number
}

/** What stands still: for how long, and what its command usually takes, where that is known. */
export interface Standstill {
  readonly seconds: number
  /** By rank. */
  readonly usual: ReadonlyMap<number, number | undefined>
}

const tickMs = 100
/** So many times what a command has taken at most. */
const slack = 20
/** Operations a second that the slowest machine does. */
const leastRate = 1e6

export class Watchdog {
  readonly #options: WatchdogOptions
  /** By rank and command, the longest it has taken, in seconds; 0: not known. */
  readonly #longest: readonly Float32Array[]
  #round = 0

  constructor(options: WatchdogOptions) {
    this.#options = options
    this.#longest = options.lowered.lists.map(({ starts }) => new Float32Array(starts.length))
  }

  /** Watches a step, until the function it returns is called; `giveUp` hears of a standstill. */
  watch(giveUp: (still: Standstill) => void): () => void {
    const round = ++this.#round
    let [before, stillMs, last] = [this.#progress(), 0, performance.now()]
    const tick = () => {
      if (round !== this.#round) return
      const [now, progress] = [performance.now(), this.#progress()]
      // A tick that comes late says that the machine is busy, or slept: ranks had no more of it than we did.
      stillMs = progress === before ? stillMs + Math.min(now - last, 2 * tickMs) : 0
      ;[before, last] = [progress, now]
      if (stillMs > this.#limitMs()) return giveUp(this.#standstill(stillMs))
      platform.later(tickMs, tick)
    }
    platform.later(tickMs, tick)
    return () => {
      this.#round++
    }
  }

  /** How long commands of the step took: (command, start, end) of each, by rank. */
  learn(rings: readonly Float64Array[]): void {
    for (const [rank, ring] of rings.entries())
      for (let i = 0; i + 2 < ring.length; i += 3) {
        const took = ring[i + 2] - ring[i + 1]
        if (took > this.#longest[rank][ring[i]]) this.#longest[rank][ring[i]] = took
      }
  }

  #status(rank: number): { readonly command: number; readonly waits: boolean; readonly done: boolean } {
    const { lowered, words } = this.#options
    const at = lowered.map.ranks[rank].status / 4
    const commands = lowered.lists[rank].starts.length
    const command = words[lowered.handAt[rank] / 4 + Hand.behind] + words[at + Status.command]
    return {
      command: Math.max(0, Math.min(command, commands - 1)),
      waits: words[at + Status.waitingFor] > 0,
      done: command >= commands - 1,
    }
  }

  /** Changes whenever a rank goes on to another command, or begins or ends to wait. */
  #progress(): string {
    return this.#options.lowered.lists
      .map((_, rank) => {
        const { command, waits } = this.#status(rank)
        return waits ? -command : command
      })
      .join(' ')
  }

  /** Of all ranks that neither wait nor are done. */
  #limitMs(): number {
    const limits = this.#options.lowered.lists.map((_, rank) => {
      const { command, waits, done } = this.#status(rank)
      if (waits || done) return 0
      const longest = this.#longest[rank][command]
      return 1000 * (longest > 0 ? slack * longest : this.#work(rank, command) / leastRate)
    })
    return Math.max(this.#options.patienceMs, ...limits)
  }

  #standstill(stillMs: number): Standstill {
    const usual = this.#options.lowered.lists.map((_, rank) => {
      const longest = this.#longest[rank][this.#status(rank).command]
      return [rank, longest > 0 ? longest : undefined] as const
    })
    return { seconds: stillMs / 1000, usual: new Map(usual) }
  }

  /** A bound on what a command does: one operation for every point of all dims it knows, and of two sequences where it attends. */
  #work(rank: number, command: number): number {
    const { program, lowered } = this.#options
    const { step: at, instr: index } = lowered.lists[rank].origins[command]
    const step = streamOf(program, rank).steps[at]
    if (step?.kind !== 'call' || index < 0) return 0
    const { instrs, buffers } = program.segments[step.segment]
    const instr = instrs[index]
    const sizes = new Map<string, number>()
    for (const ref of 'ins' in instr ? [...instr.ins, ...instr.outs] : [])
      for (const { name, size } of buffers[ref].dims) sizes.set(name, Math.max(size, sizes.get(name) ?? 0))
    const points = [...sizes.values()].reduce((product, size) => product * size, 1)
    return instr.kind.startsWith('attention') ? points * (sizes.get('seq') ?? 1) : points
  }
}
