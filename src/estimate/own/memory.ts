/**
 * The memory of our own program, without compiling it. A block's frames are sums of a few widths (`compile/recompute.ts`
 * says what it keeps), so the arena of a rank is what is resident plus the worst of a few moments: the backward pass of a
 * layer, of the head, of the embedding, the end of the step. The compiler's arena is the truth; tests hold this to it.
 */
import { activationBytes, dataRanks, isCast } from '../../base/index.js'
import { scheduleFacts, usualFlights } from '../../plan/index.js'
import { pipelineIn } from '../book.js'
import { embeddingParameters, type Held, headParameters } from '../counts.js'
import { expertCopies, expertShards } from '../experts.js'
import { factorRoom } from '../factor-cost.js'
import type { PipelineMemory } from '../memory.js'
import { muonRoom } from '../muon-cost.js'
import { stateBytes } from '../optimizer-cost.js'
import { tokensOf } from '../others/activations.js'
import type { Holding } from '../schedules/holding.js'
import {
  aheadOf,
  atWorkOf,
  behindOf,
  type blockSizes,
  type Moments,
  momentWidth,
  type worksAt,
} from '../schedules/moments.js'
import { fetchesEach, type RankLayers, reducesEach } from '../schedules/stages.js'
import { type Placed, shardRanks } from '../setup.js'
import { type CutFacts, cutFacts, heldOf, ranksOfTable } from './cut-facts.js'
import { type BlockBytes, FetchedBlocks } from './fetched.js'
import type { Stash } from './stash.js'
import { isCoded, travelOf } from './wire.js'

/** What does not depend on the rank. */
interface Facts extends CutFacts {
  readonly placed: Placed
  readonly tokens: number
  /** Bytes of an activation as wide as one element a token. */
  readonly token: number
  readonly element: number
  /** Ranks that share what ZeRO splits. */
  readonly data: number
  /** Bytes that the optimizer keeps of a parameter of a layer; and of the embedding and the head, which Muon leaves to AdamW. */
  readonly state: number
  readonly stateOfEnds: number
  /** By the share of them that have experts, the layers of a rank. */
  readonly mixes: Map<number, Mix>
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
  /** From ZeRO-3 on, parameters as they are computed with: of the block at work, and of others beside it. */
  readonly fetched: BlockBytes
  readonly beside: FetchedBlocks
}

function factsOf(placed: Placed): Facts {
  const { shape, split, book } = placed
  const cut = book ? book.cutFacts(shape, split, () => cutFacts(placed)) : cutFacts(placed)
  const { widths, layer, mixed, head, expert, routed, denseLayer, largest, table } = cut
  const element = activationBytes(placed.precision)
  const tokens = tokensOf(placed)
  const token = tokens * element
  const scratch = scratchesOf(placed, cut)
  const state = stateBytes(placed, placed.optimizer)
  // Written out, here and below: a search makes these by the ten thousand, and spreading takes longer than the sums do.
  return {
    placed,
    widths,
    tokens,
    token,
    element,
    data: shardRanks(split),
    state,
    stateOfEnds: placed.optimizer?.kind === 'muon' ? stateBytes(placed) : state,
    layer,
    mixed,
    mixes: new Map(),
    head,
    expert,
    routed,
    denseLayer,
    layerParameters: cut.layerParameters,
    trained: cut.trained,
    largest,
    table,
    scratch,
    extras: extrasOf(token, layer, head, scratch),
  }
}

/**
 * Gradients that are added up as they are made pass one by one; others lie there for all of a block, and those of the
 * block before until the next have left. Parameters that are fetched for a call lie beside those of the calls after it.
 */
function scratchesOf(placed: Placed, cut: CutFacts): Scratches {
  const { layerParameters: layer, expert, largest, table } = cut
  const { split, software, shape } = placed
  const element = fetchesEach(split) ? activationBytes(placed.precision) : 0
  const prefetch = split.prefetch ?? usualFlights.prefetch
  const { gradientBytes: wide } = software
  const whole = reducesEach(split)
  // Where only experts have copies, only they fly.
  const apart = dataRanks(split) === 1 && !split.lifted
  const flown = apart ? { layer: expert, table: 0 } : { layer, table }
  const made = shape.adapters ? { layer: cut.trained.mean[apart ? 'experts' : 'all'], table: 0 } : flown
  const fetched: BlockBytes = { nothing: 0, layer: element * flown.layer, table: element * flown.table }
  // On their way parameters lie there as they travel, and so do gradients, beside what they were packed from.
  const [parameters, gradients] = [travelOf(placed, 'gather'), travelOf(placed, 'reduce')]
  const narrow =
    parameters.sent < parameters.stored ? (parameters.sent / parameters.stored) * (1 + 1 / shardRanks(split)) : 1
  const sent = wide + (gradients.sent < wide ? gradients.sent * framesOf(split) : 0)
  // Parts that have come from the host, or are on their way.
  const parts = split.lifted && shardRanks(split) > 1 ? ((prefetch + 1) * fetched.layer) / shardRanks(split) : 0
  return {
    layer: wide * (whole ? made.layer : largest),
    table: shape.adapters ? 0 : wide * table,
    behind: { nothing: 0, layer: whole ? sent * made.layer : 0, table: whole ? sent * made.table : 0 },
    fetched,
    beside: new FetchedBlocks({ bytes: fetched, prefetch, narrow, parts, apart }),
  }
}

/** Bytes of each rank of the compiled program, nearly. */
export function ownMemory(placed: Placed): PipelineMemory {
  const facts = factsOf(placed)
  const whole = placed.optimizer?.kind === 'muon' ? muonRoom(placed) : 0
  return {
    of: holding => {
      const held = heldParameters(facts, holding)
      const { activations, workspace, gathered } = worstOf(
        facts,
        holding,
        gatheredBytes(facts, held),
        sentOnce(facts, held),
      )
      const { parameters, gradients, optimizer } = statesOf(facts, held)
      // When parameters are updated, activations are gone, and so is what was gathered.
      const { errors, next } = factorRoom(
        placed,
        held.trained.all,
        Math.max(facts.largest, held.ends > 0 ? facts.table : 0),
      )
      // Matrices of one kind are the last that are made orthogonal: of the others the errors are what they become.
      const beside = held.all > 0 ? (next * holding.layers * facts.largest) / held.all : 0
      const updated = Math.max(next, whole + (whole > 0 ? beside : 0))
      const room = Math.max(workspace, updated - activations - gathered)
      const kept = optimizer + errors
      return {
        parameters: parameters + gathered,
        gradients,
        optimizer: kept,
        activations,
        workspace: room,
        framework: 0,
      }
    },
    least: held => {
      const { parameters, gradients, optimizer } = statesOf(facts, heldParameters(facts, held))
      const { layer, extras } = mixOn(facts, held)
      const { open, pending, handed } = keptOf(facts, layer)
      const { work, scratch } = extras
      // When a layer goes backward, whole or first in its input alone; or when gradients of weights are made, of a layer or of the head.
      const opened = held.open > 0 ? held.open * open + Math.min(work[0] + scratch[0], work[1] + scratch[1]) : 0
      const owed = held.pending > 0 ? held.pending * pending + Math.min(scratch[2], scratch[5]) : 0
      return parameters + gradients + optimizer + handed + Math.max(opened, owed)
    },
  }
}

/** Bytes that lie there for a layer and for the head in each state of a microbatch, and what comes from the next stage. */
function keptOf({ placed, tokens, token, head, widths }: Facts, layer: Stash) {
  const { recompute, pp } = placed.split
  const sums = recompute === 'none' || recompute === 'cheap' ? 4 * widths.sums * tokens : 0
  // Of what waits on the host, the carries of a few layers are under way.
  const away = placed.split.waiting ? widths.residual : 0
  return {
    open: token * (layer.open - away) + sums,
    pending: token * layer.pending,
    openHead: token * head.open,
    pendingHead: token * head.pending,
    handed: (pp > 1 ? token * widths.residual : 0) + 3 * token * away,
  }
}

interface HeldByRank extends Held {
  /** What is trained of it. */
  readonly trained: Held
  /** Of the embedding and the head. */
  readonly ends: number
}

function heldParameters(facts: Facts, rank: RankLayers): HeldByRank {
  const { placed, layerParameters: layer, expert, routed, denseLayer: dense } = facts
  const { first, last } = rank
  const { shape } = placed
  const ranks = ranksOfTable(placed)
  const ends = (first ? embeddingParameters(shape, ranks) : 0) + (last ? headParameters(shape, ranks, first) : 0)
  const { all, experts } = heldOf(rank, { mean: { all: layer, experts: expert }, routed, dense })
  const trained = shape.adapters ? heldOf(rank, facts.trained) : { all: all + ends, experts }
  return { all: all + ends, experts, ends, trained }
}

/** With AdamW 16 bytes a parameter in f32; 18 in bf16, where the state is wider than parameters and so there are masters, or 16 with narrow gradients; else 8. */
function statesOf(
  { placed, element, data, state, stateOfEnds }: Facts,
  { all: held, trained, experts, ends }: HeldByRank,
) {
  const { zero, reduce } = placed.split
  const { gradientBytes: wide } = placed.software
  // Experts are split over those ranks alone that hold the same.
  const part = (held - experts) / data + experts / expertShards(placed.split)
  const own = (trained.all - trained.experts) / data + trained.experts / expertShards(placed.split)
  return {
    parameters: placed.split.lifted ? 0 : element * (zero >= 3 ? part : held),
    gradients: wide * (zero >= 2 && reduce !== 'step' ? own : trained.all),
    optimizer: placed.split.offload
      ? 0
      : state * (zero >= 1 ? own : trained.all) + ((stateOfEnds - state) * ends) / (zero >= 1 ? data : 1),
  }
}

/**
 * ZeRO-3 that gathers once a step: parameters as they are computed with, until the last call that reads them. So long lie codes of
 * weights that are made once a step, in place of the weights where nobody else reads these.
 */
function gatheredBytes({ placed, element, data }: Facts, { all, experts, ends }: HeldByRank): number {
  const { split } = placed
  const codes = keptCodes(placed)
  const coded = codes * (all - experts - ends)
  if (split.gather !== 'step' || split.zero < 3) return coded
  const read = codes > 0 ? experts + ends : all
  return coded + element * (data > 1 || split.lifted ? read : expertCopies(split) > 1 ? experts : 0)
}

/** Gradients that leave once a step in fewer bits lie there packed until it ends. */
function sentOnce({ placed, data }: Facts, { trained: { all, experts } }: HeldByRank): number {
  const { stored, sent } = travelOf(placed, 'reduce')
  return sent === stored || reducesEach(placed.split)
    ? 0
    : sent * framesOf(placed.split) * (data > 1 ? all : expertCopies(placed.split) > 1 ? experts : 0)
}

/** Codes arrive in another frame than they left from. */
const framesOf = (split: Placed['split']): number => (isCoded(split) ? 2 : 1)

interface Bytes {
  readonly activations: number
  readonly workspace: number
  /** Of what was gathered for the step, what is still there. */
  readonly gathered: number
}

interface Mix {
  readonly layer: Stash
  readonly extras: Extras
}

/** The layers of a rank: those with experts and those without. */
function mixOn(facts: Facts, { layers, dense }: RankLayers): Mix {
  const { mixed, token, head, scratch, mixes } = facts
  if (dense === undefined || layers === 0) return facts
  const share = 1 - dense / layers
  const known = mixes.get(share)
  if (known) return known
  const layer = mixed(share)
  const mix = { layer, extras: extrasOf(token, layer, head, scratch) }
  mixes.set(share, mix)
  return mix
}

function worstOf(facts: Facts, holding: Holding, whole: number, sent: number): Bytes {
  const { layer, extras } = mixOn(facts, holding)
  const { ahead, stays } = facts.scratch.beside.of(holding)
  const kept = keptOf(facts, layer)
  const fullest = fullestOf(holding.moments, { extras, ahead, stays, kept, whole, layers: holding.layers })
  const { activations, workspace, gathered } = fullest
  return sent > activations + workspace + gathered ? { activations: 0, workspace: sent, gathered: 0 } : fullest
}

/** Bytes, in columns: a search looks through millions of moments. */
interface MomentBytes {
  readonly extras: Extras
  readonly ahead: readonly number[]
  readonly stays: readonly number[]
  readonly kept: ReturnType<typeof keptOf>
  /** Gathered for the step, and for how many layers. */
  readonly whole: number
  readonly layers: number
}

function fullestOf(moments: Moments, { extras, ahead, stays, kept, whole, layers }: MomentBytes): Bytes {
  const { work, scratch: needed, behind } = extras
  const { open, pending, openHead, pendingHead, handed } = kept
  let most = -1
  let activations = 0
  let workspace = 0
  let gathered = 0
  for (let at = 0; at < moments.length; at += momentWidth) {
    const atWork = atWorkOf(moments[at])
    const next = aheadOf(moments[at])
    const body = moments[at + 1] * open + moments[at + 2] * pending
    const all = body + moments[at + 3] * openHead + moments[at + 4] * pendingHead + handed + work[atWork]
    const scratch = needed[atWork] + behind[behindOf(moments[at])] + ahead[next] + (next > 0 ? stays[atWork] : 0)
    // Parameters of the last block to read any count for little.
    const there = next === 0 ? 0 : (whole * moments[at + 5]) / Math.max(1, layers)
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
  readonly work: Each<typeof worksAt>
  readonly scratch: Each<typeof worksAt>
  readonly behind: Each<typeof blockSizes>
}

/** A number for each of these, in their order. Rows of plain numbers: of so few, typed ones take longer to make. */
type Each<Names extends readonly string[]> = { readonly [At in keyof Names]: number }

function extrasOf(token: number, layer: Stash, head: Stash, scratch: Scratches): Extras {
  const { fetched, behind } = scratch
  return {
    work: [token * layer.work, token * layer.input, 0, token * head.work, token * head.input, 0, 0],
    scratch: [
      fetched.layer + scratch.layer,
      fetched.layer,
      scratch.layer,
      fetched.table + scratch.table,
      fetched.table,
      scratch.table,
      scratch.table,
    ],
    behind: [behind.nothing, behind.layer, behind.table],
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
  const { token, widths } = facts
  const { placement, backward } = scheduleFacts[split.schedule]
  const { pipeline, holdings } = pipelineIn(placed)
  const made = backward === 'whole' ? placed.software.gradientBytes : 0
  return rank => {
    const own = holdings.all[rank]
    const kept = split.recompute === 'per-op' ? widths.residual : mixOn(facts, own).layer.open
    // Of two directions only one may have microbatches.
    const surely = placement === 'both ends' ? { layers: pipeline.stages[rank], first: false, last: false } : own
    const { parameters, gradients, optimizer } = statesOf(facts, heldParameters(facts, surely))
    const body = token * own.open * kept + (own.open > 0 ? made * facts.largest : 0)
    const head = own.last ? token * 2 * widths.vocab + made * facts.table : 0
    return parameters + gradients + optimizer + Math.max(body, head)
  }
}

/** Bytes of the codes that are kept while a step lasts, of each parameter. */
const keptCodes = ({ split, precision }: Pick<Placed, 'split' | 'precision'>): number =>
  !isCast(precision) || fetchesEach(split) ? 0 : split.fp8 === 'mx' ? 2.25 : 1
