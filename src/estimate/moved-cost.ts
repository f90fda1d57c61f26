/**
 * Updates of parameters that need what lives elsewhere, played one after the other as the program does them: what the next few need is on its
 * way meanwhile, and so is what those before have made.
 */
import { adaptedWidths, expertWidths } from './counts.js'
import { denseOf, expertCopies, routedOf, routedShare } from './experts.js'
import { matricesOf } from './muon-cost.js'
import type { Prices } from './prices.js'
import { type Setup, shardRanks } from './setup.js'
import type { MostHeld } from './step-cost.js'

/** How many parameters ahead the program sends for what they need, and for how many it does not wait (compile/stream/updates.ts). */
const ahead = 4

/** Parameters of one size that a rank owns, in elements. */
export interface Tensors {
  readonly count: number
  readonly elements: number
  readonly isMatrix: boolean
}

/** Seconds of one parameter: on the links and disks before its update and after it, and of the update. */
export interface MovedUpdate {
  readonly before: readonly number[]
  readonly work: number
  readonly after: readonly number[]
}

/** What a rank with so many layers owns, as far as ZeRO splits it: a table first and one last, where it has them. */
export function tensorsOf(setup: Setup, prices: Prices, { all, layers }: MostHeld): readonly Tensors[] {
  const { shape, split } = setup
  if (shape.adapters) return Array.from({ length: Math.floor(layers) }, () => adaptersOf(setup)).flat()
  const data = shardRanks(split)
  const shared = (copies: number) => (split.zero === 0 ? 1 : copies)
  const small = { isMatrix: false, elements: shape.embed / shared(data), count: smallOf(setup) }
  const matrices = matricesOf(setup).map(({ count, share, each, rows, columns, split: over, copies }) => ({
    ...{ isMatrix: true, count, elements: (share * each * rows * columns) / over / shared(copies) },
  }))
  const table = { isMatrix: false, count: 1, elements: prices.headParameters / shared(data) }
  const tables = Math.round((all - layers * (prices.trained?.all ?? prices.layerParameters)) / prices.headParameters)
  const body = Array.from({ length: Math.floor(layers) }, () => [small, ...matrices]).flat()
  return [...(tables > 0 ? [table] : []), ...body, ...(tables > 1 ? [table] : [])]
}

/** Both matrices of each adapter of the mean layer: what is frozen is not updated. */
function adaptersOf({ shape, split }: Setup): readonly Tensors[] {
  const { rank, targets } = shape.adapters ?? { rank: 0, targets: [] }
  const tensors = (widths: readonly number[], share: number, copies: number): Tensors[] =>
    widths
      .filter(width => width * share > 0)
      .map(width => ({ isMatrix: true, count: 1, elements: (share * rank * width) / (split.zero === 0 ? 1 : copies) }))
  const of = (one: Setup['shape']) => targets.flatMap(target => adaptedWidths(one, split.tp, target).flat())
  const [routed, data] = [routedShare(shape), shardRanks(split)]
  const ofExperts = (routed * (shape.experts?.count ?? 0)) / split.ep
  return [
    ...tensors(of(denseOf(shape)), 1 - routed, data),
    ...tensors(of(routedOf(shape)), routed, data),
    ...tensors(expertWidths(shape, split.etp).flat(), ofExperts, expertCopies(split)),
  ]
}

/** Norms and biases of a layer. */
export const smallOf = ({ shape: { biases, norm } }: Pick<Setup, 'shape'>): number =>
  (norm === 'layer' ? 4 : 2) + (biases ? 6 : 0)

/** Seconds from the first move to the last. */
export function playMoved(tensors: readonly Tensors[], costOf: (one: Tensors) => MovedUpdate): number {
  const queue = tensors.flatMap(one => new Array<MovedUpdate>(one.count).fill(costOf(one)))
  const [come, gone] = [new Float64Array(queue.length), new Float64Array(queue.length)]
  const lanes = { before: [0, 0], after: [0, 0] }
  const started = (lane: number[], at: number, seconds: readonly number[]): number => {
    seconds.forEach((one, i) => {
      if (one > 0) lane[i] = Math.max(lane[i], at) + one
    })
    return Math.max(...seconds.map((one, i) => (one > 0 ? lane[i] : at)))
  }
  let now = 0
  const fetch = (i: number) => {
    if (i < queue.length) come[i] = started(lanes.before, now, queue[i].before)
  }
  for (let i = 0; i < ahead; i++) fetch(i)
  for (let i = 0; i < queue.length; i++) {
    fetch(i + ahead)
    now = Math.max(now, come[i]) + queue[i].work
    gone[i] = started(lanes.after, now, queue[i].after)
    if (i >= ahead) now = Math.max(now, gone[i - ahead])
  }
  return Math.max(now, ...gone.slice(-ahead))
}
