/**
 * Samples by number, and batches of them. A batch is made whole, for all ranks at once, and which samples it holds
 * depends on the seed and the step alone: ranks cut their parts out of it, so that what dp copies see is disjoint and
 * complete by construction, and the same under every plan.
 */
import { type BatchSizes, batchOfStep } from '../base/index.js'
import type { DType } from '../ir/index.js'
import { permutation } from './order.js'

export type Values = Int32Array | Float32Array

/** An input of one sample: how many values it has, and what stands at each place where there is no sample. */
export interface SampleInput {
  readonly dtype: DType
  readonly size: number
  readonly blank: (place: number) => number
}

/** Training samples by number, written into the caller's buffers. */
export interface Samples {
  readonly count: number
  /** Inputs by the model's name for them. */
  readonly inputs: Readonly<Record<string, SampleInput>>
  /** Fills `into` with one input of sample number `sample`. */
  write(input: string, sample: number, into: Values): void
}

/** The whole global batch of an input, sample after sample. */
export type Batch = (input: string) => Values

export interface Order extends BatchSizes {
  readonly seed: number
}

/** Where a run stands in its data: enough to go on from, under any plan. */
export interface Cursor {
  readonly samples: number
  readonly epoch: number
  readonly fingerprint: string
}

/** The batch of a step. Each epoch visits every sample once in its own random order; a batch may span two epochs. */
export function batchAt(samples: Samples, order: Order, step: number): Batch {
  const { seed } = order
  const { globalBatch, first } = batchOfStep(order, step)
  const chosen = Array.from({ length: globalBatch }, (_, i) => {
    const epoch = Math.floor((first + i) / samples.count)
    return permutation(samples.count, { seed, name: 'order', step: epoch })((first + i) % samples.count)
  })
  return batchOf(samples, chosen)
}

export const cursorAt = (
  samples: Samples,
  order: Order,
  at: { readonly step: number; readonly fingerprint: string },
): Cursor => {
  const { first } = batchOfStep(order, at.step)
  return { samples: first, epoch: Math.floor(first / samples.count), fingerprint: at.fingerprint }
}

/** The first batches of a dataset in order, each sample once. The last one is padded with blank samples. */
export function batchesInOrder(samples: Samples, globalBatch: number, most: number): Batch[] {
  const batches = Math.min(most, Math.ceil(samples.count / globalBatch))
  return Array.from({ length: batches }, (_, batch) =>
    batchOf(
      samples,
      Array.from({ length: globalBatch }, (_, i) => batch * globalBatch + i),
    ),
  )
}

function batchOf(samples: Samples, chosen: readonly number[]): Batch {
  const made = new Map<string, Values>()
  return name => {
    const known = made.get(name)
    if (known) return known
    const input = samples.inputs[name]
    if (!input) throw new Error(`the data has no ${name}; it has ${Object.keys(samples.inputs).join(', ')}`)
    const values = valuesOf(input, chosen.length)
    for (const [i, sample] of chosen.entries())
      if (sample < samples.count) samples.write(name, sample, values.subarray(i * input.size, (i + 1) * input.size))
    made.set(name, values)
    return values
  }
}

function valuesOf({ dtype, size, blank }: SampleInput, samples: number): Values {
  const values = dtype === 'i32' ? new Int32Array(samples * size) : new Float32Array(samples * size)
  return values.map((_, i) => blank(i % size))
}
