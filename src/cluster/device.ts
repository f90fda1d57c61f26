/**
 * What one accelerator can do: its rates, how much of them real kernels reach (the curves), its memory, its price.
 * Everything a figure was taken from is named in `sources`.
 */
import { z } from 'zod'
import { type Precision, precisions } from '../base/index.js'

export { type Precision, precisions }

const fraction = z.number().positive().max(1)
const rate = z.number().positive()

/** One product that was timed: [m x k] times [k x n]. */
export const MatmulPoint = z.strictObject({
  m: z.int().min(1),
  n: z.int().min(1),
  k: z.int().min(1),
  precision: z.enum(precisions),
  seconds: rate,
})

/** One attention that was timed: a forward or a backward pass over `batch` x `heads`. */
export const AttentionPoint = z.strictObject({
  pass: z.enum(['forward', 'backward']),
  batch: z.int().min(1),
  heads: z.int().min(1),
  kvHeads: z.int().min(1),
  queries: z.int().min(1),
  keys: z.int().min(1),
  headDim: z.int().min(1),
  causal: z.boolean(),
  dropout: z.literal(true).optional(),
  seconds: rate,
})

/** A kernel bound by memory that was timed: bytes read and written, and seconds. */
export const MemoryPoint = z.tuple([rate, rate])

/**
 * Time of a kernel between the others of a training step, over its time in a loop of its own: a loop of products runs into
 * the limit of power that a step does not reach, and a loop of attentions finds its operands in the cache.
 */
const inStep = z.number().positive().describe('its time within a training step, over its time in a loop of its own')

export const Curves = z.strictObject({
  matmul: z.strictObject({
    efficiency: z
      .partialRecord(z.enum(precisions), fraction)
      .describe('the share of the peak that very large products reach. Absent precisions use that of bf16'),
    tile: z
      .tuple([z.int().min(1), z.int().min(1)])
      .default([128, 128])
      .describe(
        'a product is cut in tiles of m x n, dealt out to `units` in waves: a last wave that is not full costs a whole one',
      ),
    units: z.int().min(1).describe('processors that work on one tile each'),
    halfK: z
      .number()
      .min(0)
      .default(0)
      .describe('the k at which half of the efficiency is reached: filling and emptying the pipeline of a tile'),
    packing: z
      .tuple([z.number().min(0), z.number().min(0)])
      .optional()
      .describe(
        'what putting the operands in order takes, as so many more rows of m (the right one) and columns of n (the left one)',
      ),
    unaligned: fraction
      .optional()
      .describe(
        'the share of the rate that is left where rows of n or of k elements do not begin at multiples of 16 bytes: a vocabulary of 50257',
      ),
    measured: z
      .array(MatmulPoint)
      .default([])
      .describe('what was measured, as evidence; where there are points the curve goes through them'),
    inStep: inStep.optional(),
  }),
  /** Shares of the peak, on the products a causal mask leaves. */
  attention: z.strictObject({
    forward: fraction.describe('share of the peak of a forward pass'),
    backward: fraction.describe('share of the peak of a backward pass'),
    half: z
      .number()
      .min(0)
      .optional()
      .describe('the headDim at which half of the rate is reached: the work on a score that is no product'),
    lanes: z
      .int()
      .min(1)
      .optional()
      .describe('a headDim counts as the next multiple of this: the elements of a vector'),
    measured: z
      .array(AttentionPoint)
      .optional()
      .describe('what was measured; where there are points the curve goes through them'),
    inStep: inStep.optional(),
  }),
  memory: z.strictObject({
    efficiency: fraction.describe('of the bandwidth, by large kernels bound by memory'),
    half: z.number().min(0).default(0).describe('bytes at which a kernel reaches half of that'),
    kernels: z
      .record(z.string(), z.array(MemoryPoint).min(1))
      .optional()
      .describe(
        'kernels that were timed, by name of the op and by size; those that were not are bound by the bandwidth alone',
      ),
  }),
  floor: z.number().min(0).describe('the least time of a kernel, however little it does, in seconds'),
})

export const Device = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9.-]+$/)
    .describe('what commands call it'),
  title: z.string().describe('what people call it'),
  peak: z.partialRecord(z.enum(precisions), rate).describe('FLOP/s without sparsity'),
  bandwidth: rate.describe('bytes per second of its memory, read and written together'),
  memory: rate.describe('bytes as sold'),
  reserve: z
    .strictObject({
      bytes: z.number().min(0).describe('context, libraries, communicators'),
      fraction: z.number().min(0).lt(1).describe('of the memory, lost to fragmentation'),
    })
    .describe('memory that programs do not get'),
  curves: Curves.describe('how much of its rates kernels reach'),
  pricePerHour: z.number().min(0).optional().describe('US dollars, on demand'),
  sources: z.array(z.string()).min(1).describe('where its figures are from'),
})

export type Device = z.output<typeof Device>
export type Curves = z.output<typeof Curves>
export type AttentionPoint = z.output<typeof AttentionPoint>
export type MatmulPoint = z.output<typeof MatmulPoint>
