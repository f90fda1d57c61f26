/**
 * What the simulator must be told: how long each thing takes when nothing is in its way. Who waits for whom, what
 * hides behind what and who is slow is the simulator's own business. A cluster's prices are made in `cluster-prices.ts`;
 * tests bring toy ones (every forward takes 1).
 */
import type { Collective, Instr, Segment } from '../ir/index.js'

/** Bytes on their way: how long they take, and over which link (an index into `links`). */
export interface Carriage {
  readonly seconds: number
  readonly link: number
}

/** `held` is for how long the sender's buffer is taken: as long as the message lasts, or 0 if the network copies it. */
export interface Message extends Carriage {
  readonly held: number
}

/** What compute and network lose while both run on one device: 0.12 makes what is left of it take 1.12 times as long. */
export interface Contention {
  readonly compute: number
  readonly network: number
}

/** The cost model as `simulate` uses it: seconds per instruction and collective. */
export interface Prices {
  /** Network lanes: links of different kinds do not wait for each other. */
  readonly links: readonly string[]
  /** Seconds of an instruction on the compute or host lane, on a rank at full speed. */
  readonly compute: (instr: Instr, segment: Segment) => number
  /** Seconds from the moment all its ranks have arrived. */
  readonly collective: (instr: Collective, segment: Segment) => Carriage
  /** Between two pipeline coordinates. */
  readonly message: (bytes: number, from: number, to: number) => Message
  /** FLOPs that one rank executes. */
  readonly flops: (instr: Instr, segment: Segment) => number
  readonly contention: Contention
}

/** A cost model with all times scaled, so that it reproduces a measured step. */
export const scaledPrices = (prices: Prices, by: number): Prices => ({
  ...prices,
  compute: (instr, segment) => by * prices.compute(instr, segment),
  collective: (instr, segment) => scaled(prices.collective(instr, segment), by),
  message: (bytes, from, to) => {
    const { held, ...carriage } = prices.message(bytes, from, to)
    return { ...scaled(carriage, by), held: by * held }
  },
})

const scaled = ({ seconds, link }: Carriage, by: number): Carriage => ({ seconds: by * seconds, link })
