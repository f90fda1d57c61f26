/** A layer of our own program in pieces: every product by itself, and the small kernels that are left between them. */
import { activationBytes } from '../../base/index.js'
import type { AdapterTarget } from '../../model/index.js'
import { adaptedWidths, tableRanks } from '../counts.js'
import type { Cut } from '../layer.js'
import type { Setup } from '../setup.js'
import type { Shape } from '../shape.js'
import { attendedWidths, meetingWork } from './context.js'
import { agreementOf, type KernelPrices, kernelPrices, type Linear } from './kernels.js'
import { type LatentWork, latentWork } from './latent.js'
import type { MeetingWork } from './meeting.js'
import { type RoutedWork, routedWork } from './routed.js'

export interface OwnWork {
  readonly queries: Linear
  readonly keys: Linear
  readonly values: Linear
  readonly out: Linear
  /** Gate and up, or up alone. */
  readonly feed: readonly Linear[]
  readonly down: Linear
  readonly meeting: MeetingWork
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
  /** Where queries, keys and values are made from narrow vectors, and where a layer has experts. */
  readonly latent?: LatentWork
  readonly routed?: RoutedWork
}

const frozenLinear = (linear: Linear): Linear => ({ ...linear, weight: 0, parameters: 0 })

/** `nth`: of the matrices of a target. */
export type AdaptedBy = (linear: Linear, target: AdapterTarget, nth?: number) => Linear

/** A product with a matrix that is frozen, and those of its adapters: both small, with what scales and adds what they make. */
export function adaptedBy(shape: Shape, tp: number, rows: number, prices: KernelPrices, element: number): AdaptedBy {
  const { adapters } = shape
  return (linear, target, nth = 0) => {
    if (!adapters) return linear
    if (!adapters.targets.includes(target)) return frozenLinear(linear)
    const [from, to] = adaptedWidths(shape, tp, target)[nth]
    const [a, b] = [prices.plain(rows, from, adapters.rank), prices.plain(rows, adapters.rank, to)]
    return {
      forward: linear.forward + a.forward + b.forward + prices.floor + prices.memory(rows * to * element),
      input: linear.input + a.input + b.input + prices.floor + prices.memory(2 * rows * from * element),
      weight: a.weight + b.weight,
      parameters: a.parameters + b.parameters,
    }
  }
}

export function ownWork(setup: Omit<Setup, 'split'>, cut: Cut): OwnWork {
  const { shape, precision } = setup
  const { tp, cp, microbatch, sequenceParallel } = cut
  const rows = (microbatch * shape.seq) / cp
  const element = activationBytes(precision)
  const prices = kernelPrices(setup, cut.fp8, agreementOf(setup, cut))
  const { memory } = prices
  // Of the residual stream a rank codes what it has, once for all products that read it.
  const split = sequenceParallel ? tp : 1
  const adapted = adaptedBy(shape, tp, rows, prices, element)
  const fromStream = (to: number, isFirst: boolean): Linear =>
    prices.linear(rows, shape.embed, to, {
      ...{ input: isFirst ? (rows * shape.embed) / split : 0, isMade: true },
      splits: { input: sequenceParallel, gradient: true },
    })
  const toStream = (from: number): Linear =>
    prices.linear(rows, from, shape.embed, {
      gradient: (rows * shape.embed) / split,
      splits: { input: true, gradient: sequenceParallel },
    })
  const { queries, keys, values, results } = attendedWidths(shape, tp)
  const ffn = shape.ffn / tp
  const vocab = shape.vocab / tableRanks(shape, tp)
  const [q, k, h] = [queries, keys, ffn].map(width => rows * width * element)
  const whole = rows * shape.embed * element
  const residual = sequenceParallel ? whole / tp : whole
  const meeting = meetingWork(setup, cut, prices)
  const back = shape.positions === 'rotary' ? (meeting.turns.length > 0 && meeting.turnsBack ? 1 : 2) : 0
  return {
    queries: adapted(fromStream(queries, true), 'q'),
    keys: adapted(fromStream(keys, false), 'k'),
    values: adapted(fromStream(values, false), 'v'),
    out: adapted(toStream(results), 'out'),
    feed: (shape.gated ? (['gate', 'up'] as const) : (['up'] as const)).map((target, i) =>
      adapted(fromStream(ffn, i === 0), target),
    ),
    down: adapted(toStream(ffn), 'down'),
    meeting,
    turn: { queries: memory(2 * q), keys: memory(2 * k), values: shape.biases ? memory(2 * k) : 0 },
    turnBack: { queries: memory(back * q), keys: memory(back * k) },
    activation: {
      forward: memory(3 * h, shape.biases ? 2 : 1),
      backward: memory((shape.gated ? 5 : 3) * h),
    },
    pass: (times, kernels) => memory(times * residual, kernels),
    wholePass: (times, kernels) => memory(times * whole, kernels),
    sumOfRows: width => memory(rows * width * element),
    table: shape.adapters
      ? frozenLinear(prices.plain(rows, shape.embed, vocab))
      : prices.plain(rows, shape.embed, vocab),
    logitPass: times => memory(times * rows * vocab * element),
    ...(shape.latent && { latent: latentWork(shape, shape.latent, cut, { prices, element, adapted }) }),
    ...(shape.experts && { routed: routedWork(shape, shape.experts, cut, prices, element) }),
  }
}
