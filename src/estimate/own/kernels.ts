/** Seconds of the kernels of our own program, by their sizes. */
import { activationBytes, isCast, uncast } from '../../base/index.js'
import type { Precision } from '../../cluster/index.js'
import { type Kernel, priceCollective, priceInStep } from '../../cost/index.js'
import { type Fp8Recipe, inBlocks } from '../../plan/index.js'
import type { StreamCut } from '../layer.js'
import type { Setup } from '../setup.js'

/** A product with a matrix: seconds forward, of the gradient of its input, and of its own; and its parameters. */
export interface Linear {
  readonly forward: number
  readonly input: number
  readonly weight: number
  readonly parameters: number
}

/** Elements that a rank codes for a product, where these are not all of its operand and of the gradient that comes back. */
export interface Coded {
  readonly input?: number
  readonly gradient?: number
  /** Its gradient is made by a pass over memory, which may code it as it does. */
  readonly isMade?: boolean
  /** Whether ranks of tp have parts of these: then they agree on scales, too. */
  readonly splits?: { readonly input: boolean; readonly gradient: boolean }
}

/** Seconds in which ranks agree on what is greatest in a tensor of which each has a part, those of tp too or not; none where nobody must. */
export function agreementOf({ cluster }: Pick<Setup, 'cluster'>, { tp, cp, agreeing }: StreamCut) {
  const met = (group: { readonly size: number; readonly stride: number }) =>
    group.size > 1 ? priceCollective({ kind: 'all-reduce', bytes: 4, group }, cluster) : 0
  if (agreeing === undefined) return () => 0
  const [apart, together] = [met({ size: agreeing * cp, stride: tp }), met({ size: agreeing * cp * tp, stride: 1 })]
  return (byTensor: boolean): number => (byTensor ? together : apart)
}

export interface KernelPrices {
  readonly of: (kernel: Kernel) => number
  /** Bound by memory: so many bytes read or written by so many kernels. */
  readonly memory: (bytes: number, kernels?: number) => number
  /** In 8 bits where the precision has them, with all that makes codes of tokens. */
  readonly linear: (rows: number, from: number, to: number, coded?: Coded) => Linear
  /** In no fewer bits than what is kept. */
  readonly plain: (rows: number, from: number, to: number) => Linear
  /** With the matrices of so many experts, of as many rows each. */
  readonly grouped: (experts: number, rows: number, from: number, to: number) => Linear
  /** The least a kernel takes. */
  readonly floor: number
}

const neither = { input: false, gradient: false }

export function kernelPrices(
  { cluster, precision, software }: Omit<Setup, 'split' | 'shape'>,
  recipe?: Fp8Recipe,
  agreed: (byTensor: boolean) => number = () => 0,
): KernelPrices {
  const { device } = cluster
  const element = activationBytes(precision)
  const of = (kernel: Kernel) => priceInStep(kernel, device)
  const stored = uncast(precision)
  const product = (batch: number, m: number, n: number, k: number, resultBytes = element, multiplied = stored) =>
    of({ kind: 'matmul', m, n, k, batch, precision: multiplied, resultBytes })
  const multiplied = (rows: number, from: number, to: number, as: Precision): Linear => ({
    forward: product(1, rows, to, from, element, as),
    input: product(1, rows, from, to, element, as),
    weight: product(1, from, to, rows, software.gradientBytes, as),
    parameters: from * to,
  })
  /** A pass that finds what is greatest, if nobody has, and one that reads again and writes a byte each. */
  const coding = (n: number, isKnown = false) =>
    n === 0
      ? 0
      : of({ kind: 'memory', read: element * n, written: n }) +
        (isKnown ? 0 : of({ kind: 'memory', read: element * n, written: 4 }))
  // Blocks lie along what is summed, and there are two products that do: tokens are coded twice. Unless all must be known first, whoever makes them does it.
  const ways = recipe && inBlocks({ recipe }) ? 2 : 1
  const isKnownFirst = recipe === undefined || recipe === 'current'
  const codingMade = (n: number) =>
    isKnownFirst ? coding(n, true) : n === 0 ? 0 : ways * of({ kind: 'memory', read: 0, written: n })
  return {
    of,
    memory: (bytes, kernels = 1) =>
      bytes === 0
        ? 0
        : Math.max(of({ kind: 'memory', read: bytes / 2, written: bytes / 2 }), kernels * device.curves.floor),
    plain: (rows, from, to) => multiplied(rows, from, to, stored),
    linear(rows, from, to, { input = rows * from, gradient = rows * to, isMade = false, splits = neither } = {}) {
      const linear = multiplied(rows, from, to, precision)
      if (!isCast(precision)) return linear
      return {
        ...linear,
        forward: linear.forward + codingMade(input) + (input > 0 ? agreed(splits.input) : 0),
        input:
          linear.input +
          agreed(splits.gradient) +
          (isMade && !isKnownFirst ? codingMade(gradient) : ways * coding(gradient)),
      }
    },
    grouped: (experts, rows, from, to) => {
      const forward = product(experts, rows, to, from)
      return { forward, input: product(experts, rows, from, to), weight: forward, parameters: experts * from * to }
    },
    floor: device.curves.floor,
  }
}
