/** Queries, keys and values of a layer: made from the residual stream, and their gradients back into it. */
import type { Flight } from './clock.js'
import type { Meeting } from './meeting.js'
import type { Phase } from './phase.js'

export interface Projection {
  forward(again: boolean): void
  /** Going back: what weight gradients need is asked for, before attention and beside it. */
  askEarly(): void
  ask(): void
  /** Until the gradient of what enters the layer's first norm. */
  backward(both: boolean): void
  /** Weight gradients alone. */
  weights(): void
}

export class PlainProjection implements Projection {
  readonly #phase: Phase
  readonly #meeting: Meeting
  #whole: Flight | undefined

  constructor(phase: Phase, meeting: Meeting) {
    this.#phase = phase
    this.#meeting = meeting
  }

  forward(again: boolean): void {
    const { clock, work, traffic } = this.#phase
    const whole = this.#phase.gather()
    const { queries, keys, values } = work
    // Biases are added when all three are made.
    if (traffic.biases) for (const linear of [queries, keys, values]) this.#phase.product(linear, whole, again)
    if (!traffic.biases) this.#phase.product(queries, whole, again)
    clock.work(work.turn.queries, again)
    this.#meeting.queries()
    if (!traffic.biases) this.#phase.product(keys, whole, again)
    clock.work(work.turn.keys, again)
    this.#meeting.keys()
    if (!traffic.biases) this.#phase.product(values, whole, again)
    clock.work(work.turn.values, again)
    this.#meeting.values()
  }

  askEarly(): void {}

  ask(): void {
    this.#whole = this.#phase.gather()
  }

  backward(both: boolean): void {
    const { clock, work, traffic, alone } = this.#phase
    const { queries, keys, values, turnBack } = work
    this.#meeting.valuesBack()
    if (traffic.biases && both) {
      // Gradients of biases come before products.
      this.#meeting.keysBack()
      this.#meeting.queriesBack()
      this.#biases()
    }
    this.#phase.back(values, this.#whole, both)
    this.#meeting.keysBack()
    clock.work(turnBack.keys)
    this.#phase.back(keys, this.#whole, both)
    this.#meeting.queriesBack()
    clock.work(turnBack.queries)
    this.#phase.back(queries, this.#whole, both)
    clock.work(work.wholePass(alone && both ? 3 : 4))
    this.#phase.finishNorm(this.#phase.sum(), both, alone)
  }

  weights(): void {
    const { queries, keys, values } = this.#phase.work
    this.#biases()
    for (const linear of [values, keys, queries]) this.#phase.made(linear, this.#whole)
  }

  #biases(): void {
    const { queries, keys, values } = this.#phase.work
    for (const { parameters } of [values, keys, queries]) this.#phase.bias(parameters / this.#phase.traffic.embed)
  }
}
