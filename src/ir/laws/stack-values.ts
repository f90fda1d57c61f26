/** Which values lie on a stack, in their order: what is done to it is done to each of them. */
import { type Act, resultA, resultB } from './acts.js'
import { type CallFrame, put, valueIn } from './call.js'
import { hashText, hashValues, keyOf, mixA, mixB, nothing, type Value } from './value.js'

const salt = hashText('stack')

type Stacking = Extract<Act, { op: 'stack' | 'each' | 'unstack' }>

export class Stacks {
  readonly #known = new Map<number, readonly Value[]>()

  /** `made` hears of what is computed. */
  act(frame: CallFrame, act: Stacking, made: (value: Value) => void): void {
    const value = (slot: number) => valueIn(frame, slot)
    switch (act.op) {
      case 'stack':
        put(frame, act.out, this.#put(act.ins.map(value)))
        break
      case 'unstack':
        for (const [i, slot] of act.outs.entries()) put(frame, slot, this.#at(value(act.in), i))
        break
      case 'each': {
        const results = this.#on(value(act.in)).map(one => computed(act.salt, one))
        results.forEach(made)
        put(frame, act.outs[0], this.#put(results))
        for (const room of act.outs.slice(1)) put(frame, room, nothing)
      }
    }
  }

  #put(values: readonly Value[]): Value {
    const stack = hashValues(salt, values)
    this.#known.set(keyOf(stack.a, stack.b), values)
    return stack
  }

  /** Of what has no such place, something that nobody else makes. */
  #at(stack: Value, place: number): Value {
    return this.#on(stack)[place] ?? hashValues(stack, [{ a: place, b: ~place }])
  }

  /** What is no stack is one of something that nobody else makes. */
  #on = ({ a, b }: Value): readonly Value[] => this.#known.get(keyOf(a, b)) ?? [hashValues(salt, [{ a, b }])]
}

/** The first result of an op on one operand, as for values that lie on no stack. */
const computed = ({ a: x, b: y }: Value, { a, b }: Value): Value => ({
  a: resultA(mixA(mixA(x, a), b), 0),
  b: resultB(mixB(mixB(y, b), a), 0),
})
