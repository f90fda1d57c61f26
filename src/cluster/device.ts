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
const inStep = z
  .number()
  .positive()
  .describe('its time within a training step relative to its time in a microbenchmark')

export const Curves = z.strictObject({
  matmul: z.strictObject({
    efficiency: z
      .partialRecord(z.enum(precisions), fraction)
      .describe('fraction of the peak that very large matmuls reach. Missing precisions use that of bf16'),
    tile: z
      .tuple([z.int().min(1), z.int().min(1)])
      .default([128, 128])
      .describe(
        'matmuls are split in tiles of m x n, which run on `units` in waves (wave quantization: a partial last wave costs a full one)',
      ),
    units: z.int().min(1).describe('processors (SMs) that work on one tile each'),
    halfK: z
      .number()
      .min(0)
      .default(0)
      .describe('k at which half of the efficiency is reached (pipeline fill and drain of a tile)'),
    packing: z
      .tuple([z.number().min(0), z.number().min(0)])
      .optional()
      .describe(
        'cost of packing the operands, as additional rows of m (right operand) and columns of n (left operand)',
      ),
    unaligned: fraction
      .optional()
      .describe('fraction of the rate for operands whose rows are not 16-byte aligned, as with a vocabulary of 50257'),
    measured: z.array(MatmulPoint).default([]).describe('measured points; the curve passes through them'),
    inStep: inStep.optional(),
  }),
  /** Shares of the peak, on the products a causal mask leaves. */
  attention: z.strictObject({
    forward: fraction.describe('fraction of the peak in the forward pass'),
    backward: fraction.describe('fraction of the peak in the backward pass'),
    half: z
      .number()
      .min(0)
      .optional()
      .describe('headDim at which half of the rate is reached (softmax work per score)'),
    lanes: z.int().min(1).optional().describe('headDim is padded to a multiple of this: the elements of a vector'),
    measured: z.array(AttentionPoint).optional().describe('measured points; the curve passes through them'),
    inStep: inStep.optional(),
  }),
  memory: z.strictObject({
    efficiency: fraction.describe('fraction of the bandwidth that large memory-bound kernels reach'),
    half: z.number().min(0).default(0).describe('bytes at which a kernel reaches half of that efficiency'),
    kernels: z
      .record(z.string(), z.array(MemoryPoint).min(1))
      .optional()
      .describe(
        'kernels that were timed, by name of the op and by size; those that were not are bound by the bandwidth alone',
      ),
  }),
  floor: z.number().min(0).describe('minimum time of a kernel in seconds'),
})

export const Device = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z0-9.-]+$/)
    .describe('name used in commands'),
  title: z.string().describe('display name'),
  peak: z.partialRecord(z.enum(precisions), rate).describe('FLOP/s without sparsity'),
  bandwidth: rate.describe('memory bandwidth in bytes per second, reads plus writes'),
  memory: rate.describe('memory in bytes, as specified'),
  reserve: z
    .strictObject({
      bytes: z.number().min(0).describe('context, libraries, communicators'),
      fraction: z.number().min(0).lt(1).describe('fraction of the memory lost to fragmentation'),
    })
    .describe('memory that is not available to programs'),
  curves: Curves.describe('efficiency curves of kernels'),
  pricePerHour: z.number().min(0).optional().describe('on-demand price in US dollars'),
  sources: z.array(z.string()).min(1).describe('sources of these numbers'),
})

export type Device = z.output<typeof Device>
export type Curves = z.output<typeof Curves>
export type AttentionPoint = z.output<typeof AttentionPoint>
export type MatmulPoint = z.output<typeof MatmulPoint>
