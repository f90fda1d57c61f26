/**
 * Runs a step again beside the ranks, which sleep: threads of its own, on the same memory, a command at a time. Nothing that lives
 * from step to step is changed, so it costs no memory but its notes, and nothing before it is asked for.
 */
import type { Rank } from '../../../base/index.js'
import type { Call, Program } from '../../../ir/index.js'
import type { BadNumber, InstrPlace, Look, Replay } from '../../look.js'
import type { StepData } from '../../runner.js'
import type { LoweredProgram } from '../lower/lowered.js'
import { Control, streamOf } from '../lower/map.js'
import { Crew } from './crew.js'
import type { Injector } from './faults.js'
import { failureOf } from './flight.js'
import type { Found, Sight } from './look.js'
import { ordersOf } from './order.js'
import type { Pool } from './pool.js'
import type { Assignment } from './protocol.js'
import type { State } from './state.js'

export interface LookerParts {
  readonly program: Program
  /** The same program, lowered as it is and with notes. */
  readonly noted: () => LoweredProgram
  readonly state: State
  readonly injector: Injector | undefined
  readonly buffer: SharedArrayBuffer
  readonly timeoutMs: number
  readonly pool: Pool | undefined
  /** What a rank is told, all but what it looks for. */
  readonly assignmentOf: (rank: Rank) => Assignment
}

export class Looker {
  readonly #parts: LookerParts

  constructor(parts: LookerParts) {
    this.#parts = parts
  }

  async look(data: StepData): Promise<Look> {
    return (await this.#seen(data, 1)).look
  }

  /** Twice. */
  async replay(data: StepData): Promise<Replay> {
    const { look, sights, lowered } = await this.#seen(data, 2)
    const differs = lowered && this.#firstOf(lowered, differencesOf(sights[0], sights[1]))
    return { ...look, ...(differs && { differs: this.#placeOf(lowered, differs) }) }
  }

  /** So often; what the first time showed. */
  async #seen(data: StepData, times: number) {
    const { state, noted } = this.#parts
    const before = state.firstBad()
    if (before) return { look: { before }, sights: [], lowered: undefined }
    const scalars = state.scalars()
    const lowered = noted()
    const sights: Sight[][] = []
    const crew = this.#crew(lowered, sights)
    try {
      await crew.start(rank => this.#assignment(lowered, rank))
      let result: Look['result']
      while (sights.length < times) {
        sights.push([])
        state.prepare(data)
        this.#parts.injector?.arm(data.step + 1, true)
        await crew.step()
        result ??= state.result(scalars)
        state.setScalars(scalars)
      }
      const bad = this.#badIn(lowered, sights[0])
      return { look: { ...(result && { result }), ...(bad && { bad }) }, sights, lowered }
    } finally {
      await crew.stop()
    }
  }

  #crew(lowered: LoweredProgram, sights: Sight[][]): Crew {
    const { program, buffer, timeoutMs, pool } = this.#parts
    const words = new Int32Array(buffer)
    const { looking: control, ranks } = lowered.map
    words.fill(0, control / 4, (control + Control.bytes) / 4)
    return new Crew(
      { words, control, statuses: ranks.map(({ status }) => status) },
      {
        ...(pool ? { pool } : {}),
        timeoutMs,
        heard: message => {
          if (message.type === 'looked') sights[sights.length - 1][message.rank] = message.sight
        },
        awaits: () => sights[sights.length - 1].flat().length < ranks.length,
        failure: trouble => failureOf({ program, lowered, words, trouble }),
      },
    )
  }

  #assignment(lowered: LoweredProgram, rank: Rank): Assignment {
    const { drawing: _, ...assignment } = this.#parts.assignmentOf(rank)
    const { notes, cleared } = lowered.notes[rank]
    const looks = { notes: { notes, cleared }, commands: lowered.lists[rank].starts.length }
    return { ...assignment, control: lowered.map.looking, looks }
  }

  #badIn(lowered: LoweredProgram, sights: readonly Sight[]): BadNumber | undefined {
    const founds = sights.flatMap(({ found }, rank) => (found ? [{ rank, command: found.command, found }] : []))
    const first = this.#firstOf(lowered, founds)
    return first && { ...this.#placeOf(lowered, first), ...madeOf(first.found) }
  }

  /** By the order of the program. */
  #firstOf<T extends Spot>({ lists }: LoweredProgram, spots: readonly T[]): T | undefined {
    if (spots.length < 2) return spots[0]
    const orders = ordersOf(lists)
    return spots.reduce((first, spot) => (order(orders, spot) < order(orders, first) ? spot : first))
  }

  #placeOf({ lists }: LoweredProgram, { rank, command }: Spot): InstrPlace {
    const { program } = this.#parts
    const { step, instr } = lists[rank].origins[command]
    const call = streamOf(program, rank).steps[step] as Call // notes are of instructions, which calls have
    return { rank, call, instr: program.segments[call.segment].instrs[instr] }
  }
}

/** A command of a rank. */
interface Spot {
  readonly rank: Rank
  readonly command: number
}

const order = (orders: readonly Int32Array[], { rank, command }: Spot): number => orders[rank][command]

const madeOf = ({ ref, value, index, of }: Found): Pick<BadNumber, 'made' | 'of'> => ({
  made: { ref, value, index },
  of,
})

/** Of each rank the first command whose bits were others. */
const differencesOf = (one: readonly Sight[], two: readonly Sight[]): Spot[] =>
  one.flatMap(({ marks }, rank) => {
    const command = marks.findIndex((mark, i) => mark !== two[rank].marks[i])
    return command < 0 ? [] : [{ rank, command }]
  })
