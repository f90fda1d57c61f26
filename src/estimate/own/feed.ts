/** The feed-forward part of a layer, from its norm to what it adds to the residual stream, and back. */
import type { Flight } from './clock.js'
import type { Phase } from './phase.js'

export interface Feed {
  /** `again`: as far as going back needs it. */
  forward(again: boolean): void
  /** Going back: the gradient that arrives is asked for. */
  ask(both?: boolean): void
  /** What weight gradients alone need once more. */
  again(): void
  /** Until the gradient of what enters its norm. `full`: forward was done again in this task. */
  backward(both: boolean, full: boolean): void
  /** What it leaves is split over ranks on which it is whole otherwise. */
  makeWhole(): Flight | undefined
  /** What weight gradients alone need is asked for, before anything else is. */
  askWeights(): void
  weights(): void
}

export class PlainFeed implements Feed {
  readonly #phase: Phase
  #arriving: Flight | undefined
  #whole: Flight | undefined

  constructor(phase: Phase) {
    this.#phase = phase
  }

  forward(again: boolean): void {
    const { clock, work } = this.#phase
    const whole = this.#phase.gather()
    if (again) this.ask()
    for (const linear of work.feed) this.#phase.product(linear, whole, again)
    if (again) return
    clock.work(work.activation.forward)
    this.#phase.product(work.down, undefined, again)
    clock.wait(this.#phase.sum())
    this.#phase.passAndBias(2, again)
  }

  ask(both = true): void {
    this.#arriving = this.#phase.gatherGradient(both)
  }

  again(): void {
    this.#phase.clock.work(this.#phase.work.activation.forward, true)
  }

  backward(both: boolean, full: boolean): void {
    const { clock, work, traffic, alone } = this.#phase
    clock.wait(this.#arriving)
    this.#phase.back(work.down, both ? this.#phase.gatherOtherWay(this.#arriving) : this.#arriving, both)
    const whole = both && !full ? this.#phase.gather() : undefined
    clock.work(work.activation.backward)
    if (both) this.#phase.bias(work.down.parameters / traffic.embed, true)
    for (const linear of work.feed.toReversed()) {
      const soon = work.feed.length === 1 && both ? () => this.#phase.sum() : undefined
      const sum = this.#phase.back(linear, whole, both, soon)
      if (work.feed.length === 1) this.#phase.finishNorm(sum ?? this.#phase.sum(), both, false)
    }
    if (work.feed.length === 1) return
    clock.work(work.wholePass(alone && both ? 2 : 3))
    this.#phase.finishNorm(this.#phase.sum(), both, alone)
  }

  makeWhole(): Flight | undefined {
    return undefined
  }

  askWeights(): void {
    this.#arriving = this.#phase.gather()
    this.#whole = this.#phase.gather()
  }

  weights(): void {
    const { feed, down } = this.#phase.work
    const { embed } = this.#phase.traffic
    this.#phase.bias(embed)
    this.#phase.made(down, this.#arriving)
    this.#phase.bias(down.parameters / embed)
    for (const linear of feed.toReversed()) this.#phase.made(linear, this.#whole)
  }
}
