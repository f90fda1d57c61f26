/**
 * The memory of our own program, without compiling it. A block's frames are sums of a few widths (`compile/recompute.ts`
 * says what it keeps), so the arena of a rank is what is resident plus the worst of a few moments: the backward pass of a
 * layer, of the head, of the embedding, the end of the step. The compiler's arena is the truth; tests hold this to it.
 */

import { activationBytes, dataRanks, type Optimizer, statesKept } from '../../base/index.js'
import { scheduleFacts, usualFlights } from '../../plan/index.js'
import { pipelineIn } from '../book.js'
import {
  embeddingParameters,
  expertParameters,
  headParameters,
  kvSplit,
  layerParameters,
  tableRanks,
} from '../counts.js'
import { expertCopies, routedShare } from '../experts.js'
import { tokensOf } from '../others/activations.js'
import type { Holding } from '../schedules/holding.js'
import {
  type AtWork,
  aheadOf,
  atWorkOf,
  type BlockSize,
  behindOf,
  blockSizes,
  momentWidth,
  worksAt,
} from '../schedules/moments.js'
import { fetchesEach, type RankLayers, reducesEach } from '../schedules/stages.js'
import type { Footprint, Placed } from '../setup.js'
import type { Latent, Shape } from '../shape.js'

/** Elements a token has on one rank, by what they are. */
interface Widths {
  /** The residual stream, whole and as the plan splits the sequence. */
  readonly whole: number
  readonly residual: number
  readonly queries: number
  /** Keys and values together; and those of all ranks of cp, where the sequence is cut. */
  readonly keys: number
  readonly allKeys: number
  readonly ffn: number
  /** Tensors of the width of the feed-forward layer: gate, up and their product, or up and its activation. */
  readonly wide: number
  readonly vocab: number
  /** A sum per head, in f32 whatever the precision. */
  readonly sums: number
}

const ranksOfTable = ({ shape, split }: Placed): number => tableRanks(shape, split.tp)

function widthsOf(placed: Placed): Widths {
  const { shape, split } = placed
  const { embed, heads, vocab, gated, latent } = shape
  const { tp, cp, sequenceParallel } = split
  const { kvHeads, headDim } = latent ? expanded(shape, latent) : shape
  const keys = (2 * kvHeads * headDim) / (latent ? tp : kvSplit(shape, tp))
  return {
    whole: embed,
    residual: sequenceParallel ? embed / tp : embed,
    queries: (heads * headDim) / tp,
    keys,
    allKeys: cp > 1 ? cp * keys : 0,
    ffn: feedWidth(shape, split) / tp,
    wide: gated ? 3 : 2,
    vocab: vocab / ranksOfTable(placed),
    sums: heads / tp,
  }
}

/** Keys and values of every head, as wide as they are on average. */
const expanded = ({ heads }: Shape, { plain, turned, values }: Latent) => ({
  kvHeads: heads,
  headDim: (plain + turned + values) / 2,
})

/** Of the feed-forward part of the mean layer: rows of experts beside what they are made from, as far as there is room for them. */
function feedWidth(shape: Shape, { imbalance = 1 }: Placed['split']): number {
  const { experts, ffn, embed, gated } = shape
  if (!experts) return ffn
  const routed = imbalance * experts.active * (experts.ffn + embed / (gated ? 3 : 2)) + experts.shared
  const share = routedShare(shape)
  return share * routed + (1 - share) * ffn
}

/** Elements per token that lie in a layer, and in the head, in each state of a microbatch. */
interface Stash {
  /** Between forward and input gradient, what enters included. */
  readonly open: number
  /** Between input gradient and weight gradient. */
  readonly pending: number
  /** What the backward pass, or its first half, needs beside that. */
  readonly work: number
}

/** Norms and what leaves the first half, queries, keys, values, the result of attention, the feed-forward layer. */
const everything = (w: Widths): number => 3 * w.residual + w.wide * w.ffn + w.keys + 2 * w.queries

function layerStash({ split: { recompute, tp, sequenceParallel } }: Placed, w: Widths): Stash {
  const collective = tp === 1 ? 0 : sequenceParallel ? 4 * w.whole + 2 * w.residual : 5 * w.whole
  // Keys and values of all ranks of cp come before attention goes back, where nothing else is on its way at once.
  const feed = Math.max(w.wide * w.ffn, collective) + (tp === 1 ? w.allKeys : 0)
  const attention = w.allKeys > 0 ? 2 * w.allKeys + 2 * w.queries + (tp === 1 ? 0 : w.whole) : 0
  const plain = Math.max(feed, attention) + 2 * w.residual
  const pending = everything(w) + 5 * w.residual
  if (recompute === 'full')
    return {
      open: w.residual,
      pending: pending + (w.wide - 2) * w.ffn,
      work:
        everything(w) +
        Math.max((w.wide - 1) * w.ffn + w.allKeys, attention) +
        (sequenceParallel ? 2.5 * w.whole : 0) +
        2 * w.residual,
    }
  if (recompute === 'selective')
    return { open: everything(w) + w.residual - w.queries, pending, work: plain + w.queries }
  return { open: everything(w) + w.residual, pending, work: plain }
}

function headStash({ split: { recompute, tp, sequenceParallel } }: Placed, w: Widths): Stash {
  const pending = 3 * w.residual + w.vocab
  const collective = tp === 1 ? 0 : w.whole + (sequenceParallel ? w.whole : 0)
  return recompute === 'full'
    ? { open: w.residual, pending, work: 2 * w.vocab + w.whole + w.residual }
    : { open: 2 * w.residual + w.vocab, pending, work: w.vocab + 2 * w.residual + collective }
}

/** What does not depend on the rank. */
interface Facts {
  readonly placed: Placed
  readonly widths: Widths
  readonly tokens: number
  /** Bytes of an activation as wide as one element a token. */
  readonly token: number
  readonly element: number
  /** Ranks that share what ZeRO splits. */
  readonly data: number
  /** Bytes that the optimizer keeps of a parameter. */
  readonly state: number
  readonly layer: Stash
  readonly head: Stash
  readonly layerParameters: number
  /** Of that, those of experts. */
  readonly expert: number
  /** Parameters of the token table. */
  readonly table: number
  readonly scratch: Scratches
  readonly extras: Extras
}

/** Bytes of parameters and their gradients that are there for a call or two. */
interface Scratches {
  /** Gradients before they are added to their sum: of a layer, of the head or the embedding. */
  readonly layer: number
  readonly table: number
  /** Gradients of the call before that are still on their way. */
  readonly behind: BlockBytes
  /** From ZeRO-3 on, parameters as they are computed with: of the block at work, and of those ahead. */
  readonly fetched: BlockBytes
  readonly ahead: (next: BlockSize, held: RankLayers) => number
}

type BlockBytes = Readonly<Record<BlockSize, number>>

function factsOf(placed: Placed): Facts {
  const { shape, split } = placed
  const widths = widthsOf(placed)
  const element = activationBytes(placed.precision)
  const tokens = tokensOf(placed)
  const token = tokens * element
  const parameters = layerParameters(shape, split)
  const table = (shape.vocab * shape.embed) / ranksOfTable(placed)
  const [layer, head] = [layerStash(placed, widths), headStash(placed, widths)]
  const scratch = scratchesOf(placed, parameters, table)
  return {
    ...{ placed, widths, tokens, token, element, data: dataRanks(split), state: stateBytes(placed), layer, head },
    expert: expertParameters(shape, split),
    ...{ layerParameters: parameters, table, scratch, extras: extrasOf(token, layer, head, scratch) },
  }
}

/**
 * Gradients that are added up as they are made pass one by one; others lie there for all of a block, and those of the
 * block before until the next have left. Parameters that are fetched for a call lie beside those of the calls after it.
 */
function scratchesOf(placed: Placed, layer: number, table: number): Scratches {
  const { split, software } = placed
  const element = fetchesEach(split) ? activationBytes(placed.precision) : 0
  const prefetch = split.prefetch ?? usualFlights.prefetch
  const { gradientBytes: wide } = software
  const whole = reducesEach(split)
  const fetched: BlockBytes = { nothing: 0, layer: element * layer, table: element * table }
  return {
    layer: wide * (whole ? layer : largestWeight(placed)),
    table: wide * table,
    behind: { nothing: 0, layer: whole ? wide * layer : 0, table: whole ? wide * table : 0 },
    fetched,
    ahead: (next, { layers, first, last }) => {
      // A rank of one block finds what it has fetched; one of two fetches them in turn.
      if (next === 'nothing' || layers + (first ? 1 : 0) + (last ? 1 : 0) <= 1) return 0
      const second = layers === 1 && next === 'layer' ? 'table' : 'layer'
      return prefetch === 0 ? 0 : fetched[next] + (prefetch - 1) * fetched[second]
    },
  }
}

/** Elements of the largest matrix of a layer. */
const largestWeight = ({ shape, split }: Placed): number =>
  Math.max(
    (shape.embed * Math.max(shape.ffn, shape.heads * shape.headDim)) / split.tp,
    ((shape.experts?.count ?? 0) * shape.embed * (shape.experts?.ffn ?? 0)) / (split.ep * (split.etp ?? 1)),
  )

/** Bytes of each rank of the compiled program, nearly. */
export function ownMemory(placed: Placed): (holding: Holding) => Footprint {
  const facts = factsOf(placed)
  return holding => {
    const held = heldParameters(facts, holding)
    const { activations, workspace, gathered } = worstOf(facts, holding, gatheredBytes(facts, held))
    const { parameters, gradients, optimizer } = statesOf(facts, held, holding.layers)
    return { parameters: parameters + gathered, gradients, optimizer, activations, workspace, framework: 0 }
  }
}

function heldParameters({ placed, layerParameters: layer }: Facts, { layers, first, last }: RankLayers): number {
  const { shape } = placed
  const ranks = ranksOfTable(placed)
  const ends = (first ? embeddingParameters(shape, ranks) : 0) + (last ? headParameters(shape, ranks, first) : 0)
  return layers * layer + ends
}

const usual: Optimizer = { kind: 'adamw', beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0 }

function stateBytes({ precision, software, optimizer = usual }: Placed): number {
  const { gradientBytes: wide } = software
  return wide * statesKept(optimizer, activationBytes(precision) < wide).length
}

/** With AdamW 16 bytes a parameter in f32; 18 in bf16, where gradients are wider than parameters and so there are masters; else 8. */
function statesOf({ placed, element, data, state, expert }: Facts, held: number, layers: number) {
  const { zero, reduce } = placed.split
  const { gradientBytes: wide } = placed.software
  // Experts are split over those ranks alone that hold the same.
  const part = (held - layers * expert) / data + (layers * expert) / expertCopies(placed.split)
  return {
    parameters: element * (zero >= 3 ? part : held),
    gradients: wide * (zero >= 2 && reduce !== 'step' ? part : held),
    optimizer: state * (zero >= 1 ? part : held),
  }
}

/** ZeRO-3 that gathers once a step: parameters as they are computed with, until the last call that reads them. */
const gatheredBytes = ({ placed, element, data }: Facts, held: number): number =>
  placed.split.gather === 'step' && data > 1 ? element * held : 0

interface Bytes {
  readonly activations: number
  readonly workspace: number
  /** Of what was gathered for the step, what is still there. */
  readonly gathered: number
}

function worstOf(facts: Facts, holding: Holding, whole: number): Bytes {
  const { moments } = holding
  const { placed, tokens, token, layer, head, widths, extras } = facts
  const { split } = placed
  const ahead = blockSizes.map(next => facts.scratch.ahead(next, holding))
  const sums = split.recompute === 'none' ? 4 * widths.sums * tokens : 0
  const handed = split.pp > 1 ? token * widths.residual : 0
  const [open, pending] = [token * layer.open + sums, token * layer.pending]
  const [openHead, pendingHead] = [token * head.open, token * head.pending]
  let [most, activations, workspace, gathered] = [-1, 0, 0, 0]
  for (let at = 0; at < moments.length; at += momentWidth) {
    const [atWork, behind, next] = [atWorkOf(moments[at]), behindOf(moments[at]), aheadOf(moments[at])]
    const kept = moments[at + 1] * open + moments[at + 2] * pending
    const all = kept + moments[at + 3] * openHead + moments[at + 4] * pendingHead + handed + extras.work[atWork]
    const scratch = extras.scratch[atWork] + extras.behind[behind] + ahead[next]
    // Parameters of the last block to read any count for little.
    const there = next === 0 ? 0 : (whole * moments[at + 5]) / Math.max(1, holding.layers)
    if (all + scratch + there <= most) continue
    most = all + scratch + there
    activations = all
    workspace = scratch
    gathered = there
  }
  return { activations, workspace, gathered }
}

/** By what is at work: bytes of activations that it needs, and of parameters and gradients; and of what is behind it. */
interface Extras {
  readonly work: readonly number[]
  readonly scratch: readonly number[]
  readonly behind: readonly number[]
}

function extrasOf(token: number, layer: Stash, head: Stash, scratch: Scratches): Extras {
  const { fetched, behind } = scratch
  const rows: Readonly<Record<AtWork, readonly [work: number, scratch: number]>> = {
    layer: [layer.work, fetched.layer + scratch.layer],
    'layer input': [layer.work, fetched.layer],
    'layer weight': [0, scratch.layer],
    head: [head.work, fetched.table + scratch.table],
    'head input': [head.work, fetched.table],
    'head weight': [0, scratch.table],
    table: [0, scratch.table],
  }
  return {
    work: worksAt.map(at => token * rows[at][0]),
    scratch: worksAt.map(at => rows[at][1]),
    behind: blockSizes.map(size => behind[size]),
  }
}

/**
 * No plan that differs from this one in its pipeline alone takes less, if a rank holds these layers and so many are between
 * forward and backward there at one time.
 */
export function ownHeld(placed: Placed): (held: RankLayers, open: number) => number {
  const facts = factsOf(placed)
  const each = facts.token * facts.layer.open
  return (held, open) => {
    const { parameters, gradients, optimizer } = statesOf(facts, heldParameters(facts, held), held.layers)
    return parameters + gradients + optimizer + open * each
  }
}

/**
 * What a rank holds for certain. When it begins its first backward pass after its fullest moment, every open stage
 * keeps its layers; when the head goes backward, the layers under it are kept and there are logits and their gradient.
 * Each of these frames is bound to that one call, or to a later one, so that they lie in the arena together.
 */
export function ownLeast(placed: Placed): (rank: number) => number {
  const facts = factsOf(placed)
  const { split } = placed
  const { token, layer, widths } = facts
  const { placement, backward } = scheduleFacts[split.schedule]
  const { pipeline, holdings } = pipelineIn(placed)
  const made = backward === 'whole' ? placed.software.gradientBytes : 0
  const kept = split.recompute === 'per-op' ? widths.residual : layer.open
  return rank => {
    const own = holdings.all[rank]
    // Of two directions only one may have microbatches.
    const surely = placement === 'both ends' ? { layers: pipeline.stages[rank], first: false, last: false } : own
    const { parameters, gradients, optimizer } = statesOf(facts, heldParameters(facts, surely), surely.layers)
    const body = token * own.open * kept + (own.open > 0 ? made * largestWeight(placed) : 0)
    const head = own.last ? token * 2 * widths.vocab + made * facts.table : 0
    return parameters + gradients + optimizer + Math.max(body, head)
  }
}
