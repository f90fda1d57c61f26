/**
 * P8 to P10: whether a step is taken is one decision for all that lives from step to step, and scalars of the program move
 * once, everywhere alike. What decides and what moves is written down as it happens, and compared at the end.
 */
import { type ScalarName, scalarEntries } from '../../base/index.js'
import { type Program, resultPlaces } from '../program.js'
import type { Act } from './acts.js'
import { type CallFrame, frameOf, put, valueIn } from './call.js'
import { type Finding, type Law, type Place, placeOf } from './law.js'
import { hashText, hashValues, same, type Value } from './value.js'

/** An instruction that is done only in a step that is taken: by which norm, and below which limit. */
export interface Verdict extends Place {
  readonly norm: Value
  readonly limit: number | undefined
}

/** A scalar was given its value of the next step. */
export interface ScalarMove extends Verdict {
  readonly pipeline: number
  readonly scalar: ScalarName
  readonly before: Value
  readonly after: Value
}

/** What a scalar is at the start of a step. */
export const valueOfScalar = (name: ScalarName): Value => hashText(`scalar ${name}`)

/** The scalar that lies in a frame of a stream. */
const scalarAt = ({ scalars }: Program, pipeline: number, frame: number): ScalarName | undefined =>
  scalarEntries(scalars).find(([, { frames }]) => frames[pipeline] === frame)?.[0]

/** What frames hold at the end of the step. */
export type Left = (pipeline: number, frame: number) => Value | undefined

export class Verdicts {
  readonly moves: ScalarMove[] = []
  readonly #updates: Verdict[] = []
  readonly #findings: Finding[] = []

  /** Gives a scalar its value of the next step. */
  move(program: Program, frame: CallFrame, act: Extract<Act, { op: 'move' }>): void {
    const { pipeline, step, call } = frame
    const place = { pipeline, step, segment: call.segment, instr: act.instr }
    const [before, norm] = [valueIn(frame, act.out), valueIn(frame, act.in)]
    const after = hashValues(act.salt, [norm, before])
    put(frame, act.out, after)
    const scalar = scalarAt(program, pipeline, frameOf(frame, act.out))
    if (scalar) this.moves.push({ ...place, scalar, before, after, norm, limit: act.limit })
    else this.#findings.push(say('P9', place, 'what moves is not a scalar of the program'))
  }

  updated(verdict: Verdict): void {
    this.#updates.push(verdict)
  }

  findings = (program: Program, left: Left): Finding[] => [
    ...this.#findings,
    ...this.#oneVerdict(program, left),
    ...program.streams.flatMap((_, pipeline) => this.#movesOnce(program, pipeline, left)),
    ...this.#everybodys(program),
  ]

  #oneVerdict({ results }: Program, left: Left): Finding[] {
    const all = [...this.#updates, ...this.moves]
    if (all.length === 0) return []
    const [place] = resultPlaces(results.normSquared)
    const norm = (place && left(...place)) ?? all[0].norm
    const { limit } = all[0]
    const told = (most: number | undefined) => (most === undefined ? 'no limit' : `the limit ${most}`)
    return all.flatMap(verdict => {
      if (!same(verdict.norm, norm)) return [say('P8', verdict, 'it is not the step’s normSquared that decides')]
      const [own, others] = [told(verdict.limit), told(limit)]
      return verdict.limit === limit ? [] : [say('P8', verdict, `${own} decides here, ${others} elsewhere`)]
    })
  }

  /** In a training step; never in an evaluation. */
  #movesOnce(program: Program, pipeline: number, left: Left): Finding[] {
    return scalarEntries(program.scalars).flatMap(([scalar, { frames }]) => {
      const own = this.moves.filter(move => move.scalar === scalar && move.pipeline === pipeline)
      const [move, again] = own
      if (own.length !== (program.evaluates ? 0 : 1))
        return [say('P9', again ?? move ?? { pipeline }, `${scalar} moves ${own.length} times`)]
      if (!move) return []
      if (!same(move.before, valueOfScalar(scalar)))
        return [say('P9', move, `${scalar} does not move from what it was at the step’s start`)]
      const end = left(pipeline, frames[pipeline])
      return end && same(end, move.after) ? [] : [say('P9', move, `${scalar} is not left as it moved`)]
    })
  }

  #everybodys({ scalars, streams }: Program): Finding[] {
    return scalarEntries(scalars).flatMap(([scalar, { frames }]) => {
      const missing = streams.flatMap((_, pipeline) => (frames[pipeline] === undefined ? [pipeline] : []))
      const [first, ...others] = this.moves.filter(move => move.scalar === scalar)
      const other = others.filter(move => !same(move.after, first.after))
      return [
        ...missing.map(pipeline => say('P10', { pipeline }, `${scalar} does not lie on stream ${pipeline}`)),
        ...other.map(move =>
          say('P10', move, `${scalar} becomes another on stream ${move.pipeline} than on stream ${first.pipeline}`),
        ),
      ]
    })
  }
}

const say = (law: Law, place: Place, message: string): Finding => ({ law, ...placeOf(place), message })
