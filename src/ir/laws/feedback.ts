/**
 * E1: nothing is lost. Where less is sent of a gradient than was given, the error is the state that remembers the rest: what was given, with
 * the error of the step before, less what was sent, which is what the update is given. Values are elements of a group, so
 * whichever ops work that out, the law is one equation. Where owners of the sum send it on, and keep back of it as well, there are two
 * accounts: what the first sends, the second is given.
 */
import { type StateName, stateEntries } from '../../base/index.js'
import type { Program } from '../program.js'
import type { Act } from './acts.js'
import { type CallFrame, frameOf, placeIn, valueIn } from './call.js'
import { startOf } from './kept.js'
import { type Finding, type Place, placeOf } from './law.js'
import { clause, type Told, told } from './phrases.js'
import { hashValues, minus, plus, same, type Value } from './value.js'

interface Noted {
  readonly place: Place
  readonly value: Value
}

/** What happens to the error of a parameter, or of its sum, on one stream. */
interface Account {
  readonly param: string
  readonly of: string
  readonly pipeline: number
  /** The frame in which its gradient is added up. */
  readonly grad: number | undefined
  readonly error: Value
  /** That of the sum. */
  readonly next?: Account
  /** Where the addends of ranks that one rank plays lie side by side. */
  side?: { readonly frame: CallFrame; readonly slot: number }
  given?: Noted
  sent?: Noted
  rest?: Noted
}

export class Feedback {
  readonly #accounts: readonly Account[]

  constructor({ params }: Program) {
    this.#accounts = params.flatMap(({ name: param, frames }) =>
      Object.entries(frames).flatMap(([pipeline, { grad, states }]): Account[] => {
        const has = (state: StateName) => stateEntries(states).some(([name]) => name === state)
        const base = { param, pipeline: Number(pipeline) }
        const error = startOf(param, 'sumError')
        const next = has('sumError') && { ...base, of: `the sum of ${param}`, grad: undefined, error }
        const first = { ...base, of: param, grad, error: startOf(param, 'error') }
        return has('error') ? (next ? [{ ...first, next }, next] : [first]) : next ? [next] : []
      }),
    )
  }

  /** The error of the step before is added to something: that must be the gradient, where it lies. */
  added(frame: CallFrame, { ins, out, instr, beside }: Extract<Act, { op: 'add' }>): void {
    if (this.#accounts.length === 0) return
    if (beside) return void this.#laid(frame, ins, out)
    const values = ins.map(slot => valueIn(frame, slot))
    const account = this.#accounts.find(
      ({ pipeline, error }) => pipeline === frame.pipeline && values.some(value => same(value, error)),
    )
    if (!account) return
    const others = ins.filter((_, i) => !same(values[i], account.error))
    const { side, grad, of, param } = account
    const isGiven = (slot: number) =>
      of !== param || frameOf(frame, slot) === grad || (side?.frame === frame && side.slot === slot)
    if (others.length === 1 && isGiven(others[0]))
      account.given = { place: placeIn(frame, instr), value: valueIn(frame, others[0]) }
  }

  /** The addends of a gradient, of which the first lies where the sum will. */
  #laid(frame: CallFrame, [first]: readonly number[], slot: number): void {
    const { pipeline } = frame
    const account = this.#accounts.find(one => one.pipeline === pipeline && one.grad === frameOf(frame, first))
    if (account) account.side = { frame, slot }
  }

  /** Gives a state what it is in the next step; the value depends on what decides whether it does. */
  become(frame: CallFrame, { in: from, norm, out, instr, salt }: Extract<Act, { op: 'become' }>): Value {
    const [value, by, before] = [from, norm, out].map(slot => valueIn(frame, slot))
    const account = this.#accounts.find(one => one.pipeline === frame.pipeline && same(one.error, before))
    if (account) account.rest = { place: placeIn(frame, instr), value }
    return hashValues(salt, [value, by, before])
  }

  /** The value that was given where part of it was kept back; else the gradient itself. */
  updated(place: Place, param: string, grad: Value): Value | undefined {
    const account = this.#accounts.find(one => one.param === param && one.pipeline === place.pipeline)
    if (!account) return grad
    const last = account.next ?? account
    last.sent = { place, value: grad }
    if (account.next) account.sent = account.next.given ?? { place, value: grad }
    return account.given?.value
  }

  findings = (): Finding[] => this.#accounts.flatMap(account => this.#balance(account))

  #balance({ of, param, pipeline, error, given, sent, rest }: Account): Finding[] {
    const say = (said: Told, { place }: Partial<Noted> = {}): Finding[] => [
      { law: 'E1', ...placeOf(place ?? { pipeline }), ...said },
    ]
    const whose = { of: of === param ? param : clause('.sum-of', { param }) }
    if (!sent) return [] // P3 says so
    // Who keeps nothing back leaves it alone.
    if (!rest) return given ? say(told('E/stays', whose), given) : []
    if (!given) return say(of === param ? told('E/gradient', whose) : told('E/arrives', whose), rest)
    return same(rest.value, minus(plus(error, given.value), sent.value)) ? [] : say(told('E/else', whose), rest)
  }
}
