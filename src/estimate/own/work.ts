/** A layer of our own program in pieces: every product by itself, and the small kernels that are left between them. */
import { activationBytes } from '../../base/index.js'
import { type Kernel, priceInStep } from '../../cost/index.js'
import { kvSplit, tableRanks } from '../counts.js'
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
  /** Between the products: rotation or biases of queries, keys and values, and the way back of a rotation; the activation. */
  readonly turn: { readonly queries: number; readonly keys: number; readonly values: number }
  readonly turnBack: { readonly queries: number; readonly keys: number }
  readonly activation: { readonly forward: number; readonly backward: number }
  /** So many passes over the residual stream, as a rank has it, and over all of it, by so many kernels. */
  readonly pass: (times: number, kernels?: number) => number
  readonly wholePass: (times: number, kernels?: number) => number
  /** The sum over all tokens of something so wide: the gradient of a bias. */
  readonly sumOfRows: (width: number) => number
  /** The product with the table of the head, and passes over the logits. */
  readonly table: Linear
  readonly logitPass: (times: number) => number
}

export function ownWork({ shape, cluster, precision, software }: Omit<Setup, 'split'>, cut: Cut): OwnWork {
  const { tp, cp, microbatch, sequenceParallel } = cut
  const { device } = cluster
  const rows = (microbatch * shape.seq) / cp
  const element = activationBytes(precision)
  const price = (kernel: Kernel) => priceInStep(kernel, device)
  const memory = (bytes: number, kernels = 1) =>
    Math.max(price({ kind: 'memory', read: bytes / 2, written: bytes / 2 }), kernels * device.curves.floor)
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
  const vocab = shape.vocab / tableRanks(shape, tp)
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
    turn: { queries: memory(2 * q), keys: memory(2 * k), values: shape.biases ? memory(2 * k) : 0 },
    turnBack: shape.positions === 'rotary' ? { queries: memory(2 * q), keys: memory(2 * k) } : { queries: 0, keys: 0 },
    activation: {
      forward: memory(3 * h, shape.biases ? 2 : 1),
      backward: memory((shape.gated ? 5 : 3) * h),
    },
    pass: (times, kernels) => memory(times * residual, kernels),
    wholePass: (times, kernels) => memory(times * whole, kernels),
    sumOfRows: width => memory(rows * width * element),
    table: linear(shape.embed, vocab),
    logitPass: times => memory(times * rows * vocab * element),
  }
}
