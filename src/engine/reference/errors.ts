/** What goes wrong in a run, and where: a rank, a step of its stream, an instruction of the segment it calls. */
import { failureClause, linesOf, type Rank, type Spoken, SpokenError } from '../../base/index.js'

export interface Where {
  readonly rank: Rank
  /** Index into the stream's steps. */
  readonly step: number
  /** Index into the segment's instructions; -1 when the step itself is meant. */
  readonly instr: number
  /** The step and the instruction in words. */
  readonly text: string
}

export class RunError extends SpokenError implements Where {
  readonly rank: Rank
  readonly step: number
  readonly instr: number
  readonly text: string
  constructor(where: Where, said: Spoken, options?: ErrorOptions) {
    super(said, options)
    this.name = 'RunError'
    this.rank = where.rank
    this.step = where.step
    this.instr = where.instr
    this.text = where.text
  }
}

export interface BlockedRank extends Where {
  readonly waitsFor: Spoken
}

/** No rank can move. `blocked` has one entry for every rank that has not finished. */
export class StallError extends RunError {
  readonly blocked: readonly BlockedRank[]
  constructor(blocked: readonly BlockedRank[]) {
    const each = (b: BlockedRank) => failureClause('.at/blocked', { where: sayWhere(b), what: b.waitsFor })
    super(blocked[0], failureClause('.at/stall', { where: sayWhere(blocked[0]), blocked: linesOf(blocked.map(each)) }))
    this.name = 'StallError'
    this.blocked = blocked
  }
}

const sayWhere = ({ rank, step, instr, text }: Where): Spoken =>
  failureClause('.at', { rank, step, instr: instr < 0 ? '' : failureClause('.at/instr', { instr }), text })

/** That something went wrong there, and what. */
export const wentWrong = (where: Where, why: string | Spoken, options?: ErrorOptions): RunError =>
  new RunError(where, failureClause('.at/why', { where: sayWhere(where), why }), options)
