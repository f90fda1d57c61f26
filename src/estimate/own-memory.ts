/**
 * The memory of our own program, without compiling it. A block's frames are sums of a few widths (SPEC.md says which
 * values a block keeps), so the arena of a rank is what is resident plus the worst of a few moments: a layer's backward
 * pass, the head's, the embedding's, the end of the step. The compiler's arena is the truth; the tests hold this to it.
 */
import { elementBytes, tokensOf } from './activations.js'
import { embeddingParameters, headParameters, kvSplit, layerParameters } from './counts.js'
import { inFlight, type Load, layersInFlight } from './in-flight.js'
import type { Footprint, Placed, Split } from './setup.js'
import { layersOfChunk, layersOfRank } from './stages.js'

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

function widthsOf({ shape, split }: Placed): Widths {
  const { embed, heads, kvHeads, headDim, ffn, vocab, gated } = shape
  const { tp, sequenceParallel } = split
  return {
    whole: embed,
    residual: sequenceParallel ? embed / tp : embed,
    queries: (heads * headDim) / tp,
    keys: (2 * kvHeads * headDim) / kvSplit(shape, tp),
    ffn: ffn / tp,
    wide: gated ? 3 : 2,
    vocab: vocab / tp,
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
  const meeting = tp === 1 ? 0 : sequenceParallel ? 4 * w.whole + 2 * w.residual : 5 * w.whole
  const plain = Math.max(w.wide * w.ffn, meeting) + 2 * w.residual
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
  const meeting = tp === 1 ? 0 : w.whole + (sequenceParallel ? w.whole : 0)
  return recompute === 'full'
    ? { open: w.residual, pending, work: 2 * w.vocab + w.whole + w.residual }
    : { open: 2 * w.residual + w.vocab, pending, work: w.vocab + 2 * w.residual + meeting }
}

/** Schedules that run all forwards first keep the head of every microbatch. */
const forwardsFirst = new Set(['gpipe', 'looped-bfs'])
const splitsBackward = new Set([
  'interleaved-zb',
  'zb-h1',
  'zb-h2',
  'zb-v',
  'v-half',
  'v-min',
  'dualpipe-v',
  'dualpipe',
])

/** Bytes on the ranks of one pipeline coordinate. */
export function ownFootprint(placed: Placed, rank: number): Footprint {
  const { shape, split } = placed
  const { layers, first, last } = layersOfRank(shape, split, rank)
  const data = split.dp * split.cp * split.ep
  const element = elementBytes(placed)
  const held = {
    layer: layerParameters(shape, split),
    table: (shape.vocab * shape.embed) / split.tp,
    all:
      layers * layerParameters(shape, split) +
      (first ? embeddingParameters(shape, split) : 0) +
      (last ? headParameters(shape, split, first) : 0),
  }
  const over = (stage: number) => held.all / (split.zero >= stage ? data : 1)
  const { activations, workspace } = worstMoment(placed, rank, { ...held, data })
  return {
    parameters: element * over(3),
    gradients: 4 * over(2),
    optimizer: (element === 4 ? 8 : 12) * over(1),
    activations,
    workspace,
    framework: 0,
  }
}

interface Held {
  readonly layer: number
  readonly table: number
  readonly all: number
  readonly data: number
}

interface Moment {
  readonly activations: number
  readonly workspace: number
}

function worstMoment(placed: Placed, rank: number, held: Held): Moment {
  const { mostOpen, mostPending } = inFlight(placed.split, rank)
  const [a, b] = [momentOf(placed, rank, held, mostOpen), momentOf(placed, rank, held, mostPending)]
  return a.activations + a.workspace > b.activations + b.workspace ? a : b
}

function momentOf(placed: Placed, rank: number, held: Held, load: Load): Moment {
  const { shape, split } = placed
  const { first, last } = layersOfRank(shape, split, rank)
  const w = widthsOf(placed)
  const tokens = tokensOf(placed)
  const token = tokens * elementBytes(placed)
  const [layer, head] = [layerStash(placed, w), headStash(placed, w)]
  const inChunk = (chunk: number) => layersOfChunk(shape, split, rank, chunk)
  const [open, pending] = [layersInFlight(split, load.open, inChunk), layersInFlight(split, load.pending, inChunk)]
  const sums = split.recompute === 'none' ? 4 * w.sums * tokens * open : 0
  const live = token * (open * layer.open + pending * layer.pending) + sums
  const heads = last ? token * headsOf(split, load, head) : 0
  const handed = split.pp > 1 ? token * w.residual : 0
  const scratch = gradientScratch(placed, held)
  const moments: Moment[] = [
    { activations: live + heads + handed + token * layer.work, workspace: scratch.layer },
    { activations: 0, workspace: split.zero === 0 ? 0 : (4 * held.all) / held.data },
  ]
  if (last)
    moments.push({ activations: live + heads + handed + token * (head.open + head.work), workspace: scratch.table })
  if (first) moments.push({ activations: live - token * inChunk(0) * layer.open + heads, workspace: scratch.table })
  return moments.reduce((a, b) => (b.activations + b.workspace > a.activations + a.workspace ? b : a))
}

/** Elements per token that lie in the head for microbatches other than the one at work. */
function headsOf({ schedule, microbatches, chunks }: Split, { pending }: Load, head: Stash): number {
  if (forwardsFirst.has(schedule)) return (microbatches - 1) * head.open
  return Math.max(0, Math.min(microbatches, pending / chunks) - 1) * head.pending
}

/** A weight's gradient before it is added to the sum; from ZeRO-2 on it is sent away first, from ZeRO-3 on the weight is fetched. */
function gradientScratch(placed: Placed, { layer, table, data }: Held): { layer: number; table: number } {
  const { shape, split } = placed
  const largest = (shape.embed * Math.max(shape.ffn, shape.heads * shape.headDim)) / split.tp
  const sent = split.zero >= 2 && data > 1 ? 1 + 1 / data : 1
  const fetched = split.zero === 3 && data > 1 ? elementBytes(placed) : 0
  const whole = split.recompute === 'full' || splitsBackward.has(split.schedule)
  return {
    layer: 4 * largest * (sent > 1 && shape.gated ? 2 : 1) * sent + fetched * (whole ? layer : largest),
    table: 4 * table * sent + fetched * table,
  }
}
