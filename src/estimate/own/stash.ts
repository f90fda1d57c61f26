/**
 * Elements a token has on one rank in a layer of our own program: what each half of the layer keeps for its backward pass,
 * what lies between the two halves of that, and what each needs beside it while it is at work. Read off what the compiler
 * keeps (compile/recompute.ts) and where values live; tests hold the sums to its arenas.
 */
import { isCast } from '../../base/index.js'
import { denseOf, expertTensor, routedOf, routedShare, routedWidths } from '../experts.js'
import type { Placed } from '../setup.js'
import type { Experts } from '../shape.js'
import { adaptedStash, addends } from './adapted-stash.js'
import { attendedWidths } from './attended.js'

export interface Widths {
  /** The residual stream, whole and as the plan splits the sequence. */
  readonly whole: number
  readonly residual: number
  readonly vocab: number
  /** A sum per head, in f32 whatever the precision. */
  readonly sums: number
}

export function widthsOf({ shape, split }: Placed, ranksOfTable: number): Widths {
  const { embed, heads, vocab } = shape
  const { tp, sequenceParallel } = split
  return {
    whole: embed,
    residual: sequenceParallel ? embed / tp : embed,
    vocab: vocab / ranksOfTable,
    sums: heads / tp,
  }
}

/** Elements per token that lie in a layer, or in the head, in each state of a microbatch. */
export interface Stash {
  /** Between forward and input gradient, what enters included. */
  readonly open: number
  /** Between input gradient and weight gradient. */
  readonly pending: number
  /** What the backward pass needs beside that; and what its first half does, what it leaves to the second included. */
  readonly work: number
  readonly input: number
}

/** One half of a layer. */
interface Half {
  /** For the backward pass; and of that what its second half needs. */
  readonly kept: number
  readonly keptOn: number
  /** What the first half of the backward pass leaves to the second. */
  readonly left: number
  /** What lies there while the whole of it is at work, or its first half. */
  readonly work: number
  readonly input: number
  /** Made again a second time, where forward is repeated and backward is in two. */
  readonly twice: number
  /** What repeating forward needs beside what it makes. */
  readonly again: number
  /** Of what is kept, what norms and activations make; and what is needed on where these are made again then. */
  readonly cheap: number
  readonly cheapOn: number
}

/** Attention: what it needs to meet other ranks, and what it needs at least. */
interface AttentionHalf extends Half {
  readonly meeting: number
  readonly least: number
}

/** Of the mean of layers of which a share has experts; what is at work is the larger. */
export function layerStash(placed: Placed, w: Widths, share = routedShare(placed.shape)): Stash {
  if (!placed.shape.experts) return stashOf(placed, w)
  const of = (shape: Placed['shape']) => stashOf({ ...placed, shape }, w)
  const routed = share > 0 ? of(routedOf(placed.shape)) : undefined
  const dense = share < 1 ? of(denseOf(placed.shape)) : undefined
  if (!routed || !dense) return (routed ?? dense)! // one of them is there
  const mean = (name: keyof Stash) => share * routed[name] + (1 - share) * dense[name]
  const most = (name: keyof Stash) => Math.max(routed[name], dense[name])
  return { open: mean('open'), pending: mean('pending'), work: most('work'), input: most('input') }
}

/**
 * What is kept where products read codes: of what norms and the activation make a byte each, and of what attention makes one more. Norms and
 * activations are not made again then, since it is not their results that are read.
 */
function stashOf(placed: Placed, w: Widths): Stash {
  const { shape, split, precision } = placed
  const { recompute } = split
  if (!isCast(precision) || recompute === 'full' || shape.experts) return plainStash(placed, w)
  const plain = recompute === 'cheap' ? plainStash({ ...placed, split: { ...split, recompute: 'none' } }, w) : undefined
  const { open, pending, ...work } = plain ?? plainStash(placed, w)
  const { results } = attendedWidths(shape, split.tp)
  const halves = (2 * w.residual + shape.ffn / split.tp) / 2
  return { ...work, open: open - halves + results / 2, pending: pending - halves - results / 2 }
}

function plainStash(placed: Placed, w: Widths): Stash {
  const { shape, split } = placed
  const { recompute, tp, sequenceParallel } = split
  const slices = shape.experts !== undefined && tp > 1 && !sequenceParallel && expertTensor(split) === 1
  // Norms, and what leaves the first half of the layer.
  const norms = slices ? 2 * w.residual : 3 * w.residual
  const attention = attentionHalf(placed, w)
  const feed = shape.experts ? routedHalf(placed, shape.experts, w) : denseHalf(placed, w)
  const everything = norms + attention.kept + feed.kept
  const keptOn = norms + attention.keptOn + feed.keptOn
  const adapted = adaptedStash(placed, w)
  const left = adapted?.left ?? 3 * w.residual + attention.left + feed.left
  const pending = adapted?.pending ?? keptOn + left + 2 * w.residual
  // What enters on the way back, and what leaves.
  const handed = 2 * w.residual
  const input = Math.max(feed.input, attention.input) + handed
  const gathered = sequenceParallel ? 2.5 * w.whole : 0
  // What forward makes again for the second half of the layer, and what is gathered for it, are gone when keys go round.
  const around = split.ring ? attention.meeting - feed.kept - gathered : attention.meeting
  if (recompute === 'full')
    return {
      open: w.residual,
      pending: pending + feed.twice,
      work: everything + Math.max(feed.again, attention.least, around) + gathered + handed,
      input: pending + feed.twice - handed + input + 1.5 * w.whole,
    }
  const work = Math.max(feed.work, attention.work) + handed
  // Of heads and of tokens, where they are exchanged.
  const result = attendedWidths(shape, tp).results * ((split.ulysses ?? 1) > 1 ? 2 : 1)
  if (recompute === 'cheap') {
    const made = feed.cheap + attention.cheap
    const kept = everything + w.residual - 2 * w.residual - made
    return {
      open: kept,
      pending: norms - 2 * w.residual + attention.cheapOn + feed.cheapOn + left + 2 * w.residual,
      work: Math.max(feed.work + feed.cheap, attention.work + attention.cheap) + w.residual + handed,
      input: left + input,
    }
  }
  const open = everything + w.residual - (adapted?.spared ?? 0)
  if (recompute === 'selective')
    return { open: open - result, pending, work: work + result, input: left + result + input }
  return { open, pending, work, input: left + input }
}

function attentionHalf({ shape, split }: Placed, w: Widths): AttentionHalf {
  const { tp, cp, ulysses = 1, ring } = split
  const { queries, keys: known, values, results } = attendedWidths(shape, tp)
  const keys = known + values
  const { queries: asked = 0, keyValues = 0 } = shape.latent ?? {}
  const narrow = 2 * (asked + keyValues) * (w.residual / w.whole)
  const exchanged = ulysses > 1 ? results : 0
  const shares = shape.latent ? queries + (shape.heads * shape.latent.plain) / tp + values : queries + keys
  const alone = tp === 1
  const all = cp / ulysses > 1 && !ring ? (cp / ulysses) * keys : 0
  const gathered = all > 0 ? 2 * all + 2 * queries + (alone ? 0 : w.whole) : 0
  const around = ring ? 3 * queries + results + 7 * keys : 0
  const meeting = Math.max(gathered, around, ulysses > 1 ? 4 * results + keys / 2 : 0)
  const met = meeting + (ring ? w.residual : 0)
  const least = alone ? (shape.latent ? 6 : 5) * w.whole : 0
  return {
    kept: queries + keys + results + narrow + exchanged,
    keptOn: results + narrow + exchanged,
    left: shares + narrow,
    work: Math.max(met, least),
    input: Math.max(meeting, (alone ? 3 : 4) * w.whole),
    ...{ twice: 0, again: 0, meeting: met, least },
    ...{ cheap: narrow / 2, cheapOn: results + narrow / 2 + exchanged },
  }
}

/** Keys and values of other ranks that come before attention goes back, where nothing else is on its way at once. */
function early({ shape, split }: Placed): number {
  const { tp, cp, ulysses = 1, ring } = split
  if (tp > 1 || cp === 1 || ulysses > 1) return 0
  const { keys, values } = attendedWidths(shape, tp)
  return (ring ? 1 : cp) * (keys + values)
}

function denseHalf(placed: Placed, w: Widths): Half {
  const { shape, split } = placed
  const { tp, sequenceParallel } = split
  const ffn = shape.ffn / tp
  // Gate, up and their product, or up and its activation.
  const wide = shape.gated ? 3 : 2
  const collective = tp === 1 ? 0 : sequenceParallel ? 4 * w.whole + 2 * w.residual : 5 * w.whole
  const coming = early(placed)
  return {
    ...{ kept: wide * ffn, keptOn: ffn, left: (wide - 1) * ffn },
    work: Math.max(wide * ffn, collective) + coming,
    input: ffn + coming,
    twice: (wide - 2) * ffn,
    again: (wide - 1) * ffn + coming,
    ...{ cheap: ffn, cheapOn: (wide - 1) * ffn },
  }
}

/** Rows of experts, as far as there is room for them, and what every token passes beside them. */
function routedHalf({ shape, split }: Placed, experts: Experts, w: Widths): Half {
  const { given, hidden, shared } = routedWidths(shape, split, experts)
  const back = (3 + addends(shape, ['gate', 'up'])) * given + (shared > 0 ? 2 * w.whole : 0)
  return {
    kept: given + 3 * hidden + 3 * shared,
    keptOn: given + hidden + shared,
    left: given + 2 * hidden + 2 * shared - w.residual,
    work: Math.max(3 * hidden, back),
    input: back,
    twice: hidden + shared,
    again: given + hidden,
    ...{ cheap: hidden + shared, cheapOn: given + 2 * hidden + 2 * shared },
  }
}

export function headStash({ shape, split: { recompute, tp, sequenceParallel } }: Placed, w: Widths): Stash {
  const pending = shape.adapters ? 0 : 3 * w.residual + w.vocab
  const collective = tp === 1 ? 0 : w.whole + (sequenceParallel ? w.whole : 0)
  if (recompute === 'full') {
    const work = 2 * w.vocab + w.whole + w.residual
    return { open: w.residual, pending, work, input: work }
  }
  const work = w.vocab + 2 * w.residual + collective
  if (recompute === 'cheap')
    return { open: w.residual + w.vocab, pending: pending - w.residual, work: work + w.residual, input: work }
  return { open: (shape.adapters ? 1 : 2) * w.residual + w.vocab, pending, work, input: work }
}
