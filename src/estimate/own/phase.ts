/** The words that tasks of a layer are written in: kernels, collectives over tp and waits, one after the other on a clock. */
import type { Clock, Flight } from './clock.js'
import type { Linear } from './kernels.js'
import type { OwnWork } from './work.js'

/** Seconds of the collectives of a layer. 0: there is none. */
export interface Traffic {
  /** Sequence parallel: what is split becomes whole. */
  readonly gather: number
  /** Gradients in blocks become whole along two ways: those of inputs and those of weights are summed along others. */
  readonly gatherTwice: boolean
  /** What is partial becomes split, or whole without sequence parallelism. */
  readonly sum: number
  /** Adding a gradient to those of the microbatches before it. */
  readonly accumulate: (parameters: number) => number
  /** Parameters of a norm, or of a bias on the residual stream. */
  readonly embed: number
  readonly biases: boolean
  /** Norms and biases have no gradients. */
  readonly frozen: boolean
}

export class Phase {
  readonly clock: Clock
  readonly work: OwnWork
  readonly traffic: Traffic

  constructor(clock: Clock, work: OwnWork, traffic: Traffic) {
    this.clock = clock
    this.work = work
    this.traffic = traffic
  }

  /** No tensor-parallel collectives stand between kernels. */
  get alone(): boolean {
    return this.traffic.sum === 0
  }

  pass(times: number, again = false): void {
    this.clock.work(this.work.pass(times), again)
  }

  /** A bias is added on the way, where there are any. */
  passAndBias(times: number, again: boolean): void {
    this.clock.work(this.work.pass(times, this.traffic.biases ? 2 : 1), again)
  }

  gather(): Flight | undefined {
    return this.clock.start(this.traffic.gather)
  }

  /** Both ways at once, where gradients of weights are made later. */
  gatherGradient(both: boolean): Flight | undefined {
    const { gather, gatherTwice } = this.traffic
    return this.clock.start(gatherTwice && !both ? 2 * gather : gather)
  }

  /** The other way, which the gradient of the weights waits for. */
  gatherOtherWay(first: Flight | undefined): Flight | undefined {
    return this.traffic.gatherTwice ? this.gather() : first
  }

  sum(): Flight | undefined {
    return this.clock.start(this.traffic.sum)
  }

  product(linear: Linear, operand: Flight | undefined, again: boolean): void {
    this.clock.wait(operand)
    this.clock.work(linear.forward, again)
  }

  /** The gradient of the input, and where both are made that of the weights. */
  back(
    linear: Linear,
    operand: Flight | undefined,
    both: boolean,
    early?: () => Flight | undefined,
  ): Flight | undefined {
    this.clock.work(linear.input)
    const flight = early?.()
    if (both) this.made(linear, operand)
    return flight
  }

  made(linear: Linear, operand: Flight | undefined): void {
    this.clock.wait(operand)
    this.clock.work(linear.weight)
    this.clock.work(this.traffic.accumulate(linear.parameters))
  }

  /** `fused`: with the sum of gradients before it, where no collective stands between. */
  finishNorm(sum: Flight | undefined, both: boolean, fused: boolean): void {
    this.clock.wait(sum)
    const [passes, kernels] = both && !this.traffic.frozen ? [4, 2] : [2, 1]
    this.clock.work(this.work.pass(fused ? passes / 2 : passes, kernels))
    if (both) this.normGradient()
  }

  /** A norm has a gain, and some a bias. */
  normGradient(): void {
    const { accumulate, embed, biases, frozen } = this.traffic
    if (frozen) return
    this.clock.work(accumulate(embed))
    if (biases) this.clock.work(accumulate(embed))
  }

  /** The gradient of a bias, `fused` with what makes it. Those of the residual stream are split like it. */
  bias(parameters: number, fused = false): void {
    const { accumulate, embed, biases, frozen } = this.traffic
    if (!biases || frozen) return
    if (!fused) this.clock.work(parameters === embed ? this.work.pass(1) : this.work.sumOfRows(parameters))
    this.clock.work(accumulate(parameters))
  }
}
