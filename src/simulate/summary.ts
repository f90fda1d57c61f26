/** A step in the figures people compare: utilisation, tokens a second, and what a whole run takes. */
import type { Simulation } from './simulate.js'

/** The useful work of a step, by which its rates are computed. */
export interface StepWork {
  readonly devices: number
  readonly tokens: number
  /** Useful FLOPs of one step, by a published definition (PaLM's, Llama 3's). */
  readonly modelFlops: number
  /** Peak FLOP/s of one device in the matmul precision. */
  readonly peak: number
}

/** Throughput and utilization of a step: tokens/s, MFU, HFU, FLOP/s per device. */
export interface Rates {
  readonly tokensPerSecond: number
  /** Useful FLOPs over peak FLOPs; and executed FLOPs, recomputation included, over peak. */
  readonly mfu: number
  readonly hfu: number
  readonly flopsPerDevice: number
}

/** Tokens/s, MFU and HFU of a simulated step. */
export function ratesOf({ step, flops }: Pick<Simulation, 'step' | 'flops'>, work: StepWork): Rates {
  const possible = work.peak * work.devices * step
  return {
    tokensPerSecond: work.tokens / step,
    mfu: work.modelFlops / possible,
    hfu: flops.executed / possible,
    flopsPerDevice: work.modelFlops / (work.devices * step),
  }
}

export interface Budget {
  readonly tokens: number
  /** US dollars for an hour of one device. */
  readonly price?: number
  /** Useful seconds of each second. */
  readonly goodput?: number
}

/** Length and cost of a training run. */
export interface Run {
  readonly steps: number
  readonly days: number
  readonly deviceHours: number
  readonly dollars?: number
}

/** Days, device hours and dollars of a run over a number of tokens. */
export function runOf(step: number, work: StepWork, { tokens, price, goodput = 1 }: Budget): Run {
  const steps = Math.ceil(tokens / work.tokens)
  const hours = (steps * step) / goodput / 3600
  const deviceHours = hours * work.devices
  return { steps, days: hours / 24, deviceHours, ...(price === undefined ? {} : { dollars: deviceHours * price }) }
}
