/**
 * P8 to P10: whether a step is taken is one decision for all that lives from step to step, what was scaled is divided once by
 * what it was scaled with, and scalars of the program move once, everywhere alike. What decides and what moves is written down as it happens, and compared at the end.
 */
import { type ScalarName, scalarEntries } from '../../base/index.js'
import { type Program, resultPlaces } from '../program.js'
import type { Act } from './acts.js'
import { type CallFrame, frameOf, placeIn, put, valueIn } from './call.js'
import { Feedback } from './feedback.js'
import { type Finding, type Law, type Place, placeOf } from './law.js'
import { clause, type Told, told } from './phrases.js'
import { hashText, hashValues, keyOf, minus, nothing, same, type Value } from './value.js'

/** An instruction that is done only in a step that is taken: by which norm, and below which limit. */
export interface Verdict extends Place {
  readonly norm: Value
  readonly limit: number | undefined
}

/** The norm was held against the limit of the step, and what came of it. */
interface Weighed extends Place {
  readonly norm: Value
  readonly weighed: Value
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

/** Acts that concern what lives from step to step. */
type Decided = 'move' | 'weigh' | 'unscale' | 'average' | 'become' | 'deduct' | 'blend'

export class Verdicts {
  readonly moves: ScalarMove[] = []
  readonly feedback: Feedback
  readonly #updates: Verdict[] = []
  readonly #weighed: Weighed[] = []
  readonly #unscaled = new Set<number>()
  readonly #findings: Finding[] = []

  constructor(program: Program) {
    this.feedback = new Feedback(program)
  }

  act(program: Program, frame: CallFrame, act: Extract<Act, { op: Decided }>): void {
    if (act.op === 'move') this.#move(program, frame, act)
    else if (act.op === 'weigh') this.#weigh(frame, act)
    else if (act.op === 'average') this.#average(frame, act)
    else if (act.op === 'unscale') this.#unscale(frame, act)
    else if (act.op === 'become') this.#become(frame, act)
    else if (act.op === 'blend') this.#blend(frame, act)
    else put(frame, act.out, minus(valueIn(frame, act.out), valueIn(frame, act.in)))
  }

  /** Gives scalars their values of the next step. */
  #move(program: Program, frame: CallFrame, act: Extract<Act, { op: 'move' }>): void {
    const place = placeIn(frame, act.instr)
    const norm = valueIn(frame, act.in)
    const all = act.outs.map(slot => valueIn(frame, slot))
    if (act.outs.length !== act.scalars.length)
      this.#findings.push(
        say(
          'P9',
          place,
          told('P/moves-numbers', { numbers: act.outs.length, scalars: { joint: ',', of: act.scalars } }),
        ),
      )
    for (const [i, slot] of act.outs.entries()) {
      const after = hashValues(hashValues(act.salt, [{ a: i, b: 0 }]), [norm, ...all])
      put(frame, slot, after)
      const scalar = scalarAt(program, frame.pipeline, frameOf(frame, slot))
      if (!scalar) this.#findings.push(say('P9', place, told('P/moves-nothing')))
      else if (scalar !== act.scalars[i])
        this.#findings.push(say('P9', place, told('P/moves-as', { scalar, other: act.scalars[i] })))
      else this.moves.push({ ...place, scalar, before: all[i], after, norm, limit: act.limit })
    }
  }

  #weigh(frame: CallFrame, act: Extract<Act, { op: 'weigh' }>): void {
    const [norm, limit] = [act.norm, act.limit].map(slot => valueIn(frame, slot))
    const weighed = hashValues(act.salt, [norm, limit])
    this.#weighed.push({ ...placeIn(frame, act.instr), norm, weighed })
    put(frame, act.out, weighed)
  }

  /** What it becomes depends on all that it reads; that this is right the serial program says. */
  #average(frame: CallFrame, act: Extract<Act, { op: 'average' }>): void {
    const place = placeIn(frame, act.instr)
    const [value, norm, taken, before] = [act.in, act.norm, act.taken, act.out].map(slot => valueIn(frame, slot))
    this.#updates.push({ ...place, norm, limit: act.limit })
    if (!same(taken, valueOfScalar('taken'))) this.#findings.push(say('P9', place, told('P/average')))
    put(frame, act.out, hashValues(act.salt, [value, norm, taken, before]))
  }

  #become(frame: CallFrame, act: Extract<Act, { op: 'become' }>): void {
    this.#updates.push({ ...placeIn(frame, act.instr), norm: valueIn(frame, act.norm), limit: act.limit })
    put(frame, act.out, this.feedback.become(frame, act))
  }

  /** A mean is divided by the scale if the gradient was. */
  #blend(frame: CallFrame, act: Extract<Act, { op: 'blend' }>): void {
    const [m, x] = [valueIn(frame, act.in), valueIn(frame, act.out)]
    const after = hashValues(act.salt, [m, x])
    if (this.#unscaled.has(keyOf(x.a, x.b))) this.#unscaled.add(keyOf(after.a, after.b))
    put(frame, act.out, after)
  }

  /** Divides by the scale of the step's start, and never twice. */
  #unscale(frame: CallFrame, act: Extract<Act, { op: 'unscale' }>): void {
    const [by, x] = [valueIn(frame, act.by), valueIn(frame, act.out)]
    const place = placeIn(frame, act.instr)
    if (!same(by, valueOfScalar('scale'))) this.#findings.push(say('P9', place, told('P/scale-start')))
    if (this.#unscaled.has(keyOf(x.a, x.b))) this.#findings.push(say('P8', place, told('P/scale-twice')))
    const after = hashValues(act.salt, [x, by])
    this.#unscaled.add(keyOf(after.a, after.b))
    put(frame, act.out, after)
  }

  /** Where losses are scaled, so is every gradient until it is divided by the scale; of one that is sent in part, what was given. */
  updated(
    program: Program,
    { param, ...place }: Place & { readonly param: string },
    act: Extract<Act, { op: 'update' }>,
    [grad, norm = nothing]: Value[],
  ): void {
    this.#updates.push({ ...place, norm, limit: act.limit })
    const { a, b } = this.feedback.updated(place, param, grad) ?? grad
    if (act.trains && program.scalars?.scale && !this.#unscaled.has(keyOf(a, b)))
      this.#findings.push(say('P8', place, told('P/unscaled')))
  }

  findings = (program: Program, left: Left): Finding[] => [
    ...this.#findings,
    ...this.feedback.findings(),
    ...this.#oneVerdict(program, left),
    ...program.streams.flatMap((_, pipeline) => this.#movesOnce(program, pipeline, left)),
    ...this.#everybodys(program),
  ]

  #oneVerdict({ results }: Program, left: Left): Finding[] {
    const all = [...this.#updates, ...this.moves]
    if (all.length === 0) return []
    const [place] = resultPlaces(results.normSquared)
    const [weighed] = this.#weighed
    const summed = (place && left(...place)) ?? weighed?.norm ?? all[0].norm
    const [decides, what] = weighed ? [weighed.weighed, clause('.weighed')] : [summed, 'normSquared']
    const { limit } = all[0]
    const saidOf = (most: number | undefined) =>
      most === undefined ? clause('.no-limit') : clause('.limit', { limit: most })
    const strange = this.#weighed.filter(one => !same(one.norm, summed) || !same(one.weighed, decides))
    const endless = weighed && limit === undefined ? [say('P8', weighed, told('P/endless'))] : []
    const others = strange.map(one => say('P8', one, told('P/weighs-other')))
    return [
      ...endless,
      ...others,
      ...all.flatMap(verdict => {
        if (!same(verdict.norm, decides)) return [say('P8', verdict, told('P/decides', { what }))]
        const [own, others] = [saidOf(verdict.limit), saidOf(limit)]
        return verdict.limit === limit ? [] : [say('P8', verdict, told('P/limits', { own, others }))]
      }),
    ]
  }

  /** In a training step; never in an evaluation. */
  #movesOnce(program: Program, pipeline: number, left: Left): Finding[] {
    return scalarEntries(program.scalars).flatMap(([scalar, { frames }]) => {
      const own = this.moves.filter(move => move.scalar === scalar && move.pipeline === pipeline)
      const [move, again] = own
      if (own.length !== (program.evaluates ? 0 : 1))
        return [say('P9', again ?? move ?? { pipeline }, told('P/moves-times', { scalar, times: own.length }))]
      if (!move) return []
      if (!same(move.before, valueOfScalar(scalar))) return [say('P9', move, told('P/moves-from', { scalar }))]
      const end = left(pipeline, frames[pipeline])
      return end && same(end, move.after) ? [] : [say('P9', move, told('P/not-left', { scalar }))]
    })
  }

  #everybodys({ scalars, streams }: Program): Finding[] {
    return scalarEntries(scalars).flatMap(([scalar, { frames }]) => {
      const missing = streams.flatMap((_, pipeline) => (frames[pipeline] === undefined ? [pipeline] : []))
      const [first, ...others] = this.moves.filter(move => move.scalar === scalar)
      const other = others.filter(move => !same(move.after, first.after))
      return [
        ...missing.map(pipeline => say('P10', { pipeline }, told('P/not-on', { scalar, stream: pipeline }))),
        ...other.map(move =>
          say('P10', move, told('P/differs', { scalar, stream: `${move.pipeline}`, first: `${first.pipeline}` })),
        ),
      ]
    })
  }
}

const say = (law: Law, place: Place, said: Told): Finding => ({ law, ...placeOf(place), ...said })
