/** What goes wrong in a run, and where: a rank, a step of its stream, an instruction of the segment it calls. */
import type { Rank } from '../../base/index.js'

export interface Where {
  readonly rank: Rank
  /** Index into the stream's steps. */
  readonly step: number
  /** Index into the segment's instructions; -1 when the step itself is meant. */
  readonly instr: number
  /** The step and the instruction in words. */
  readonly text: string
}

export class RunError extends Error implements Where {
  readonly rank: Rank
  readonly step: number
  readonly instr: number
  readonly text: string
  constructor(where: Where, reason: string, options?: ErrorOptions) {
    super(`${showWhere(where)}: ${reason}`, options)
    this.name = 'RunError'
    this.rank = where.rank
    this.step = where.step
    this.instr = where.instr
    this.text = where.text
  }
}

export interface BlockedRank extends Where {
  readonly waitsFor: string
}

/** No rank can move. `blocked` has one entry for every rank that has not finished. */
export class StallError extends RunError {
  readonly blocked: readonly BlockedRank[]
  constructor(blocked: readonly BlockedRank[]) {
    super(blocked[0], `no rank can move\n${blocked.map(b => `  ${showWhere(b)} waits for ${b.waitsFor}`).join('\n')}`)
    this.name = 'StallError'
    this.blocked = blocked
  }
}

export const showWhere = ({ rank, step, instr, text }: Where): string =>
  `rank ${rank}, step ${step}${instr < 0 ? '' : ` [${instr}]`} ${text}`
