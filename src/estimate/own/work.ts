/** A layer of our own program in pieces: every product by itself, and the small kernels that are left between them. */
import { activationBytes } from '../../base/index.js'
import { type Kernel, priceInStep } from '../../cost/index.js'
import { kvSplit } from '../counts.js'
import { attentionKernels, type Cut } from '../layer.js'
import type { Setup } from '../setup.js'

/** A product with a matrix: seconds forward, of the gradient of its input, and of its own; and its parameters. */
export interface Linear {
  readonly forward: number
  readonly input: number
  readonly weight: number
  readonly parameters: number
}

export interface OwnWork {
  readonly queries: Linear
  readonly keys: Linear
  readonly values: Linear
  readonly out: Linear
  /** Gate and up, or up alone. */
  readonly feed: readonly Linear[]
  readonly down: Linear
  readonly attention: { readonly forward: number; readonly backward: number }
  /** Between the products: rotation or biases of queries and of keys, the activation. */
  readonly turn: { readonly queries: number; readonly keys: number }
  readonly activation: { readonly forward: number; readonly backward: number }
  /** One pass over the residual stream, as a rank has it, and over all of it. */
  readonly pass: (times: number) => number
  readonly wholePass: (times: number) => number
}

export function ownWork({ shape, cluster, precision, software }: Omit<Setup, 'split'>, cut: Cut): OwnWork {
  const { tp, cp, microbatch, sequenceParallel } = cut
  const { device } = cluster
  const rows = (microbatch * shape.seq) / cp
  const element = activationBytes(precision)
  const price = (kernel: Kernel) => priceInStep(kernel, device)
  const memory = (bytes: number) => price({ kind: 'memory', read: bytes / 2, written: bytes / 2 })
  const product = (m: number, n: number, k: number, resultBytes: number) =>
    price({ kind: 'matmul', m, n, k, batch: 1, precision, resultBytes })
  const linear = (from: number, to: number): Linear => ({
    forward: product(rows, to, from, element),
    input: product(rows, from, to, element),
    weight: product(from, to, rows, software.gradientBytes),
    parameters: from * to,
  })
  const queries = (shape.heads * shape.headDim) / tp
  const keys = (shape.kvHeads * shape.headDim) / kvSplit(shape, tp)
  const ffn = shape.ffn / tp
  const [q, k, h] = [queries, keys, ffn].map(width => rows * width * element)
  const whole = rows * shape.embed * element
  const residual = sequenceParallel ? whole / tp : whole
  const { forward, backward } = attentionKernels(shape, cut, precision, software)
  const sum = (kernels: readonly Kernel[]) => kernels.reduce((seconds, kernel) => seconds + price(kernel), 0)
  return {
    queries: linear(shape.embed, queries),
    keys: linear(shape.embed, keys),
    values: linear(shape.embed, keys),
    out: linear(queries, shape.embed),
    feed: Array.from({ length: shape.gated ? 2 : 1 }, () => linear(shape.embed, ffn)),
    down: linear(ffn, shape.embed),
    attention: { forward: sum(forward), backward: sum(backward) },
    turn: { queries: memory(2 * q), keys: memory(2 * k) },
    activation: { forward: memory(3 * h), backward: memory((shape.gated ? 5 : 3) * h) },
    pass: times => memory(times * residual),
    wholePass: times => memory(times * whole),
  }
}
