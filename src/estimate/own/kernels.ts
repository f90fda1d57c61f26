/** Seconds of the kernels of our own program, by their sizes. */
import { activationBytes } from '../../base/index.js'
import { type Kernel, priceInStep } from '../../cost/index.js'
import type { Setup } from '../setup.js'

/** A product with a matrix: seconds forward, of the gradient of its input, and of its own; and its parameters. */
export interface Linear {
  readonly forward: number
  readonly input: number
  readonly weight: number
  readonly parameters: number
}

export interface KernelPrices {
  readonly of: (kernel: Kernel) => number
  /** Bound by memory: so many bytes read or written by so many kernels. */
  readonly memory: (bytes: number, kernels?: number) => number
  readonly linear: (rows: number, from: number, to: number) => Linear
  /** With the matrices of so many experts, of as many rows each. */
  readonly grouped: (experts: number, rows: number, from: number, to: number) => Linear
  /** The least a kernel takes. */
  readonly floor: number
}

export function kernelPrices({ cluster, precision, software }: Omit<Setup, 'split' | 'shape'>): KernelPrices {
  const { device } = cluster
  const element = activationBytes(precision)
  const of = (kernel: Kernel) => priceInStep(kernel, device)
  const product = (batch: number, m: number, n: number, k: number, resultBytes = element) =>
    of({ kind: 'matmul', m, n, k, batch, precision, resultBytes })
  return {
    of,
    memory: (bytes, kernels = 1) =>
      bytes === 0
        ? 0
        : Math.max(of({ kind: 'memory', read: bytes / 2, written: bytes / 2 }), kernels * device.curves.floor),
    linear: (rows, from, to) => ({
      forward: product(1, rows, to, from),
      input: product(1, rows, from, to),
      weight: product(1, from, to, rows, software.gradientBytes),
      parameters: from * to,
    }),
    grouped: (experts, rows, from, to) => {
      const forward = product(experts, rows, to, from)
      return { forward, input: product(experts, rows, from, to), weight: forward, parameters: experts * from * to }
    },
    floor: device.curves.floor,
  }
}
