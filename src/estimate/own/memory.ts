/**
 * The memory of our own program, without compiling it. A block's frames are sums of a few widths (`compile/recompute.ts`
 * says what it keeps), so the arena of a rank is what is resident plus the worst of a few moments: the backward pass of a
 * layer, of the head, of the embedding, the end of the step. The compiler's arena is the truth; tests hold this to it.
 */

import { activationBytes, dataRanks, type Optimizer, statesKept } from '../../base/index.js'
import { scheduleFacts, usualFlights } from '../../plan/index.js'
import { embeddingParameters, headParameters, kvSplit, layerParameters, tableRanks } from '../counts.js'
import { tokensOf } from '../others/activations.js'
import type { Fullness, Holding } from '../schedules/holding.js'
import { inFlight } from '../schedules/in-flight.js'
import {
  fetchesEach,
  layersOfChunk,
  layersOfRank,
  type RankLayers,
  reducesEach,
  splitsAll,
} from '../schedules/stages.js'
import type { Footprint, Placed, Split } from '../setup.js'

/** Elements a token has on one rank, by what they are. */
interface Widths {
  /** The residual stream, whole and as the plan splits the sequence. */
  readonly whole: number
  readonly residual: number
  readonly queries: number
  /** Keys and values together. */
  readonly keys: number
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
  const { embed, heads, kvHeads, headDim, ffn, vocab, gated } = shape
  const { tp, sequenceParallel } = split
  return {
    whole: embed,
    residual: sequenceParallel ? embed / tp : embed,
    queries: (heads * headDim) / tp,
    keys: (2 * kvHeads * headDim) / kvSplit(shape, tp),
    ffn: ffn / tp,
    wide: gated ? 3 : 2,
    vocab: vocab / ranksOfTable(placed),
    sums: heads / tp,
  }
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
  const plain = Math.max(w.wide * w.ffn, collective) + 2 * w.residual
  const pending = everything(w) + 5 * w.residual
  if (recompute === 'full')
    return {
      open: w.residual,
      pending: pending + (w.wide - 2) * w.ffn,
      work: everything(w) + (w.wide - 1) * w.ffn + (sequenceParallel ? 2.5 * w.whole : 0) + 2 * w.residual,
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
  readonly layer: Stash
  readonly head: Stash
  readonly layerParameters: number
  /** Parameters of the token table. */
  readonly table: number
  readonly scratch: Scratches
}

/** Bytes of parameters and their gradients that are there for a call or two. */
interface Scratch {
  /** Gradients before they are added to their sum. */
  readonly made: number
  /** From ZeRO-3 on, parameters as they are computed with. */
  readonly fetched: number
}

/** By what goes backward, and by the largest block whose gradients may still be on their way. */
interface Scratches {
  readonly layer: (behind: Behind) => Scratch
  readonly head: (behind: Behind) => Scratch
  readonly table: Scratch
}

type Behind = 'table' | 'layer' | 'nothing'

function factsOf(placed: Placed): Facts {
  const { shape, split } = placed
  const widths = widthsOf(placed)
  const element = activationBytes(placed.precision)
  const tokens = tokensOf(placed)
  const data = dataRanks(split)
  const parameters = layerParameters(shape, split)
  const table = (shape.vocab * shape.embed) / ranksOfTable(placed)
  return {
    placed,
    widths,
    tokens,
    token: tokens * element,
    element,
    data,
    layer: layerStash(placed, widths),
    head: headStash(placed, widths),
    layerParameters: parameters,
    table,
    scratch: scratchesOf(placed, parameters, table),
  }
}

/**
 * Gradients that are added up as they are made pass one by one; others lie there for all of a block, and those of the
 * block before until the next have left. Parameters that are fetched for a call lie beside those of the calls after it.
 */
function scratchesOf(placed: Placed, layer: number, table: number): Scratches {
  const { split, software } = placed
  const element = fetchesEach(split) ? activationBytes(placed.precision) : 0
  const ahead = split.prefetch ?? usualFlights.prefetch
  const behind = { table: Math.max(table, layer), layer, nothing: 0 }
  const whole = reducesEach(split)
  const made = (all: number, largest: number, before: number) =>
    software.gradientBytes * (whole ? all + before : largest)
  return {
    layer: before => ({
      made: made(layer, largestWeight(placed), behind[before]),
      fetched: element * (1 + ahead) * layer,
    }),
    head: before => ({ made: made(table, table, behind[before]), fetched: element * (table + ahead * layer) }),
    table: { made: made(table, table, layer), fetched: element * ahead * layer },
  }
}

/** Elements of the largest matrix of a layer. */
const largestWeight = ({ shape, split }: Placed): number =>
  (shape.embed * Math.max(shape.ffn, shape.heads * shape.headDim)) / split.tp

/** Bytes of each rank of the compiled program, nearly. */
export function ownMemory(placed: Placed): (holding: Holding) => Footprint {
  const facts = factsOf(placed)
  return holding => {
    const { mostOpen, mostPending } = holding
    const held = heldParameters(facts, holding)
    const opened = worstMoment(facts, holding, mostOpen)
    const pended = mostPending === mostOpen ? opened : worstMoment(facts, holding, mostPending)
    const { activations, workspace } = bytesOf(pended) > bytesOf(opened) ? pended : opened
    const { parameters, gradients, optimizer } = statesOf(facts, held)
    return { parameters, gradients, optimizer, activations, workspace, framework: 0 }
  }
}

function heldParameters({ placed, layerParameters: layer }: Facts, { layers, first, last }: RankLayers): number {
  const { shape } = placed
  const ranks = ranksOfTable(placed)
  const ends = (first ? embeddingParameters(shape, ranks) : 0) + (last ? headParameters(shape, ranks, first) : 0)
  return layers * layer + ends
}

const usual: Optimizer = { kind: 'adamw', beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0 }

/** With AdamW 16 bytes a parameter in f32; 18 in bf16, where gradients are wider than parameters and so there are masters; else 8. */
function statesOf({ placed, element, data }: Facts, held: number) {
  const { zero, reduce, gather } = placed.split
  const { gradientBytes: wide } = placed.software
  return {
    parameters: (element * held) / (zero >= 3 ? data : 1) + (gather === 'step' && data > 1 ? element * held : 0),
    gradients: (wide * held) / (zero >= 2 && reduce !== 'step' ? data : 1),
    optimizer: (statesKept(placed.optimizer ?? usual, element < wide).length * wide * held) / (zero >= 1 ? data : 1),
  }
}

interface Moment {
  readonly activations: number
  readonly workspace: number
}

const bytesOf = ({ activations, workspace }: Moment): number => activations + workspace

function worstMoment(facts: Facts, { first, last, firstStage }: Holding, fullness: Fullness): Moment {
  const { placed, token, layer, head, widths } = facts
  const { split } = placed
  const { open, pending } = fullness
  const sums = split.recompute === 'none' ? 4 * widths.sums * facts.tokens * open : 0
  const heads = last ? token * headsInFlight(split, fullness, head) : 0
  const handed = split.pp > 1 ? token * widths.residual : 0
  const all = token * (open * layer.open + pending * layer.pending) + sums + heads + handed
  const inTwo = splitsAll(split)
  const { scratch } = facts
  let worst: Moment = { activations: 0, workspace: 0 }
  const consider = (activations: number, workspace: number) => {
    if (activations + workspace > bytesOf(worst)) worst = { activations, workspace }
  }
  const backward = (activations: number, work: number, { made, fetched }: Scratch) => {
    consider(activations + work, fetched + (inTwo ? 0 : made))
    if (inTwo) consider(activations, made + fetched)
  }
  // What a microbatch before left behind.
  const behind = first || last ? 'table' : 'layer'
  const alone = split.microbatches === 1 || scheduleFacts[split.schedule].forwardsFirst
  backward(all, token * layer.work, scratch.layer(behind))
  if (last) backward(all + token * head.open, token * head.work, scratch.head(alone ? 'nothing' : behind))
  if (first) consider(all - token * firstStage * layer.open, scratch.table.made + scratch.table.fetched)
  return worst
}

/** Elements per token that lie in the head for microbatches other than the one at work. */
function headsInFlight({ schedule, microbatches, chunks }: Split, { pendingStages }: Fullness, head: Stash): number {
  // Where all forwards come first, the head of every microbatch is kept.
  if (scheduleFacts[schedule].forwardsFirst) return (microbatches - 1) * head.open
  return Math.max(0, Math.min(microbatches, pendingStages / chunks) - 1) * head.pending
}

/**
 * What a rank holds for certain. When it begins its first backward pass after its fullest moment, every open stage
 * keeps its layers; when the head goes backward, the layers under it are kept and there are logits and their gradient.
 * Each of these frames is bound to that one call, or to a later one, so that they lie in the arena together.
 */
export function ownLeast(placed: Placed): (rank: number) => number {
  const facts = factsOf(placed)
  const { shape, split } = placed
  const { token, layer, widths } = facts
  const { placement, backward } = scheduleFacts[split.schedule]
  const made = backward === 'whole' ? placed.software.gradientBytes : 0
  const kept = split.recompute === 'per-op' ? widths.residual : layer.open
  return rank => {
    let fewest = Number.POSITIVE_INFINITY
    for (let chunk = 0; chunk < split.chunks; chunk++)
      fewest = Math.min(fewest, layersOfChunk(shape, split, rank, chunk))
    const ownLayers = layersOfRank(shape, split, rank)
    const own = placement === 'both ends' ? fewest * facts.layerParameters : heldParameters(facts, ownLayers)
    const { parameters, gradients, optimizer } = statesOf(facts, own)
    // On a loop the closed form says exactly how many stages are open; elsewhere one surely is.
    const open = placement === 'loop' ? inFlight(split, rank).mostOpen.open : 1
    const body = token * open * fewest * kept + (fewest > 0 ? made * largestWeight(placed) : 0)
    const head = ownLayers.last ? token * (fewest * kept + 2 * widths.vocab) + made * facts.table : 0
    return parameters + gradients + optimizer + Math.max(body, head)
  }
}
