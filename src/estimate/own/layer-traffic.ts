/** Seconds of the collectives of a layer of our own program, by the cut of the layer. */
import { activationBytes, isCast, type MeshAxis, precisionFacts } from '../../base/index.js'
import { type Fp8Recipe, usualBlock } from '../../plan/index.js'
import { expertLoad, expertTensor, routedTokens } from '../experts.js'
import type { Cut } from '../layer.js'
import type { PriceTable } from '../prices.js'
import type { Setup, Split } from '../setup.js'
import type { Experts } from '../shape.js'
import { meetingTraffic } from './context.js'
import { type Lanes, lanesOf } from './lanes.js'
import type { LatentTraffic } from './latent.js'
import type { MeetingTraffic } from './meeting.js'
import type { Traffic } from './phase.js'
import type { RoutedTraffic } from './routed.js'

/** Of data ranks, ZeRO and `reduce` only whether gradients leave after each microbatch. */
export type LayerSplit = Cut & Pick<Split, MeshAxis | 'zero' | 'reduce' | 'microbatches' | 'recompute'>
export type LayerSetup = Omit<Setup, 'split'> & { readonly split: LayerSplit }

/** Of all parts of a layer. */
export interface LayerTraffic extends CutTraffic {
  readonly common: Traffic
}

/** All of it but how gradients are added up, which the cut of a layer does not tell. */
export interface CutTraffic {
  readonly common: Omit<Traffic, 'accumulate'>
  readonly meeting: MeetingTraffic
  readonly latent: LatentTraffic
  readonly routed?: RoutedTraffic
}

/** Of a number in blocks, on average: f32 of 128, a byte of 32. */
const scaleBytes = { blocks: 4 / usualBlock.blocks, mx: 1 / usualBlock.mx } as const
const inBlocksOf = (recipe: Fp8Recipe | undefined): recipe is keyof typeof scaleBytes =>
  recipe !== undefined && Object.hasOwn(scaleBytes, recipe)

export function layerTraffic(setup: LayerSetup, table: PriceTable): CutTraffic {
  const { shape, split, precision } = setup
  const { tp, cp, sequenceParallel, microbatch } = split
  const rows = ((microbatch * shape.seq) / cp) * activationBytes(precision)
  // Codes are what is gathered.
  const narrow = isCast(precision) ? precisionFacts[precision].bytes / activationBytes(precision) : 1
  // Blocks have scales, which follow in a gather of their own.
  const scales = inBlocksOf(split.fp8) ? scaleBytes[split.fp8] / activationBytes(precision) : 0
  const gathered = (width: number) =>
    sequenceParallel
      ? table.collective('all-gather', narrow * rows * width, tp, 1) +
        (scales > 0 ? table.collective('all-gather', scales * rows * width, tp, 1) : 0)
      : 0
  const summed = (width: number) =>
    table.collective(sequenceParallel ? 'reduce-scatter' : 'all-reduce', rows * width, tp, 1)
  const lanes = lanesOf(split, table)
  const { queries = 0, keyValues = 0, turned = 0 } = shape.latent ?? {}
  return {
    common: {
      gather: gathered(shape.embed),
      gatherTwice: inBlocksOf(split.fp8),
      sum: summed(shape.embed),
      embed: shape.embed,
      biases: shape.biases,
      frozen: shape.adapters !== undefined,
    },
    meeting: meetingTraffic(setup, table, lanes),
    latent: {
      gather: { queries: gathered(queries), keys: gathered(keyValues), turned: gathered(turned) },
      sum: { queries: summed(queries), keys: summed(keyValues), turned: sequenceParallel ? summed(turned) : 0 },
    },
    ...(shape.experts && { routed: routedTraffic(setup, shape.experts, table, lanes) }),
  }
}

function routedTraffic(
  { shape, split, precision }: LayerSetup,
  experts: Experts,
  table: PriceTable,
  lanes: Lanes,
): RoutedTraffic {
  const { tp, cp, ep, sequenceParallel, microbatch } = split
  const etp = expertTensor(split)
  const load = expertLoad(shape, experts, split, split.imbalance)
  const rows = load.experts * load.rows
  const element = activationBytes(precision)
  const activation = ((microbatch * shape.seq) / cp) * shape.embed * element
  const among = (bytes: number) => table.collective('all-to-all', bytes, ep, etp)
  const chosen = 4 * routedTokens(shape, split) * etp * experts.active * ep
  // Without sequence parallelism tokens are whole on the ranks of tp: on those that split an expert, if they are among them.
  const known = !sequenceParallel && tp % etp === 0
  const shared = etp * routedTokens(shape, split) * shape.embed * element
  return {
    choices: table.collective('all-gather', chosen, ep, etp),
    rows: among(rows * shape.embed * element),
    weights: among(4 * rows),
    lane: lanes.of(ep, etp),
    slices: tp > 1 && !sequenceParallel && etp === 1,
    tokens: known ? 0 : table.collective('all-gather', shared, etp, 1),
    sum: table.collective(known ? 'all-reduce' : 'reduce-scatter', known ? activation : shared, etp, 1),
    whole: table.collective('all-gather', activation, tp, 1),
    parts: table.collective(sequenceParallel || etp === 1 ? 'reduce-scatter' : 'all-reduce', activation, tp, 1),
  }
}
