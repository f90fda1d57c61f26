/** A layer of our own program in pieces: every product by itself, and the small kernels that are left between them. */
import { activationBytes } from '../../base/index.js'
import { priceCollective } from '../../cost/index.js'
import type { AdapterTarget } from '../../model/index.js'
import { tableRanks } from '../counts.js'
import type { Cut, StreamCut } from '../layer.js'
import type { Setup } from '../setup.js'
import type { Shape } from '../shape.js'
import { adaptedBy, addedTo, type PricedParts } from './adapted.js'
import { attendedWidths, meetingWork } from './context.js'
import { agreementOf, kernelPrices, type Linear } from './kernels.js'
import { type LatentWork, latentWork } from './latent.js'
import type { MeetingWork } from './meeting.js'
import { type RoutedWork, routedWork } from './routed.js'

/** Of all but experts. */
export interface StreamWork {
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
  /** Where queries, keys and values are made from narrow vectors. */
  readonly latent?: LatentWork
}

export interface OwnWork extends StreamWork {
  /** Where a layer has experts. */
  readonly routed?: RoutedWork
}

/** Products that read the residual stream, and those that add to it. */
function streamProducts(
  shape: Shape,
  { tp, cp, microbatch, sequenceParallel }: StreamCut,
  { prices, adapted }: PricedParts,
) {
  const rows = (microbatch * shape.seq) / cp
  // Of the residual stream a rank codes what it has, once for all products that read it.
  const split = sequenceParallel ? tp : 1
  const [gathered, summedUp] = sequenceParallel ? ([{ tokens: 'gathered' }, { tokens: 'summed' }] as const) : [{}, {}]
  const summed = tp === 1 ? addedTo.passing : addedTo.alone
  const fromStream = (to: number, target: AdapterTarget, made: number, isFirst = false): Linear => {
    const linear = prices.linear(rows, shape.embed, to, {
      ...{ input: isFirst ? (rows * shape.embed) / split : 0, isMade: true },
      splits: { input: sequenceParallel, gradient: true },
    })
    const given = shape.gated || target !== 'up' ? addedTo.passing : summed
    return adapted(linear, target, { rows, from: shape.embed, to, passes: { made, given }, ...gathered })
  }
  const toStream = (from: number, target: AdapterTarget): Linear => {
    const linear = prices.linear(rows, from, shape.embed, {
      gradient: (rows * shape.embed) / split,
      splits: { input: true, gradient: sequenceParallel },
    })
    const given = target === 'out' ? addedTo.alone : addedTo.passing
    return adapted(linear, target, { rows, from, to: shape.embed, passes: { made: summed, given }, ...summedUp })
  }
  return { fromStream, toStream }
}

function pricedParts(setup: Omit<Setup, 'split'>, cut: StreamCut): PricedParts {
  const prices = kernelPrices(setup, cut.fp8, agreementOf(setup, cut))
  const element = activationBytes(setup.precision)
  const adapted = adaptedBy(setup.shape, prices, element, bytes =>
    priceCollective({ kind: 'all-gather', bytes, group: { size: cut.tp, stride: 1 } }, setup.cluster),
  )
  return { prices, element, adapted }
}

export function ownWork(setup: Omit<Setup, 'split'>, cut: Cut, stream: StreamWork): OwnWork {
  const { experts } = setup.shape
  return experts ? { ...stream, routed: routedWork(setup.shape, experts, cut, pricedParts(setup, cut)) } : stream
}

export function streamWork(setup: Omit<Setup, 'split'>, cut: StreamCut): StreamWork {
  const { shape } = setup
  const { tp, cp, microbatch, sequenceParallel } = cut
  const rows = (microbatch * shape.seq) / cp
  const parts = pricedParts(setup, cut)
  const { prices, element, adapted } = parts
  const { memory } = prices
  const { fromStream, toStream } = streamProducts(shape, cut, parts)
  const { queries, keys, values, results } = attendedWidths(shape, tp)
  const ffn = shape.ffn / tp
  const vocab = shape.vocab / tableRanks(shape, tp)
  const [q, k, h] = [queries, keys, ffn].map(width => rows * width * element)
  const whole = rows * shape.embed * element
  const residual = sequenceParallel ? whole / tp : whole
  const meeting = meetingWork(setup, cut, prices)
  const back = shape.positions === 'rotary' ? (meeting.turns.length > 0 && meeting.turnsBack ? 1 : 2) : 0
  return {
    queries: fromStream(queries, 'q', addedTo.passing, true),
    keys: fromStream(keys, 'k', addedTo.passing),
    values: fromStream(values, 'v', shape.biases ? addedTo.passing : addedTo.alone),
    out: toStream(results, 'out'),
    feed: (shape.gated ? (['gate', 'up'] as const) : (['up'] as const)).map((target, i) =>
      fromStream(ffn, target, shape.biases ? addedTo.passing : addedTo.kept, i === 0),
    ),
    down: toStream(ffn, 'down'),
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
    table: adapted(prices.plain(rows, shape.embed, vocab), undefined, { rows, from: shape.embed, to: vocab }),
    logitPass: times => memory(times * rows * vocab * element),
    ...(shape.latent && { latent: latentWork(shape, shape.latent, cut, parts) }),
  }
}
