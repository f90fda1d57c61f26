/** Throughput, utilization and cost of a step. */

/** What a step does, on what. */
export interface StepWork {
  readonly devices: number
  readonly tokens: number
  /** FLOPs of one step over all devices, by the definition of the utilization: PaLM's unless stated. */
  readonly modelFlops: number
  /** FLOPs of recomputed forward values, counted by the same definition. */
  readonly recomputedFlops?: number
  /** Peak FLOP/s of one device in the matmul precision. */
  readonly peak: number
  /** US dollars per device-hour. */
  readonly price?: number
}

/** Throughput and utilization of a step: tokens/s, MFU, HFU, FLOP/s per device. */
export interface Rates {
  readonly tokensPerSecond: number
  /** Model FLOPs over peak FLOPs. */
  readonly mfu: number
  /** Model FLOPs and those of recomputation over peak FLOPs: never below MFU. */
  readonly hfu: number
  readonly flopsPerDevice: number
  /** US dollars per billion tokens, if the device has a price. */
  readonly dollars?: number
}

/** Model FLOP/s utilization: FLOPs, or FLOP/s, over what the devices could do. */
export const mfuOf = (flops: number, possible: number): number => flops / possible

/** Tokens/s, MFU, HFU and cost of a step that takes `seconds`. */
export function ratesOf(seconds: number, work: StepWork): Rates {
  const { devices, tokens, modelFlops, recomputedFlops = 0, peak, price } = work
  const possible = peak * devices * seconds
  const tokensPerSecond = tokens / seconds
  return {
    tokensPerSecond,
    mfu: mfuOf(modelFlops, possible),
    hfu: mfuOf(modelFlops + recomputedFlops, possible),
    flopsPerDevice: modelFlops / (devices * seconds),
    ...(price !== undefined && { dollars: (1e9 / tokensPerSecond / 3600) * devices * price }),
  }
}
