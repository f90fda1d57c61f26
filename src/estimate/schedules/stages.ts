/** Which layers the stages and ranks of a pipeline hold, and how often a step passes them. */
import { evenParts, type MeshAxis } from '../../base/index.js'
import { type ScheduleName, scheduleFacts } from '../../plan/index.js'
import { comeFirst, hasCopies, routedShare } from '../experts.js'
import type { Split } from '../setup.js'
import type { Shape } from '../shape.js'

export interface RankLayers {
  readonly layers: number
  /** Of these, those without experts, where others have some. */
  readonly dense?: number | undefined
  readonly first: boolean
  readonly last: boolean
}

export interface PipelineRank extends RankLayers {
  /** Stages in the order in which microbatches come to them first. */
  readonly stages: readonly number[]
  /** In a step: microbatches that pass its stages, its layers, each counted by itself, and its embedding and head. */
  readonly turns: number
  readonly layerTurns: number
  readonly firstTurns: number
  readonly lastTurns: number
  /** Stages that a microbatch passes before it comes here first, and their layers. */
  readonly stagesBefore: number
  readonly layersBefore: number
  /** As `excess`: of its layers, each counted as often as a step passes it, and of those before. */
  readonly excessTurns: number
  readonly excessBefore: number
}

export interface Pipeline {
  /** Layers of each stage, and of all of them. */
  readonly stages: readonly number[]
  readonly layers: number
  /** Of each stage: layers without experts, less those that it would have if they were spread. None, where they are. */
  readonly excess?: readonly number[]
  readonly ranks: readonly PipelineRank[]
  /** Of ranks that do as much the first, and the one that a microbatch comes to last. */
  readonly firsts: readonly PipelineRank[]
  readonly lasts: readonly PipelineRank[]
}

export function pipelineOf(shape: Shape, split: Split): Pipeline {
  const layout = layoutOf(shape, split)
  const { stages, excess } = layout
  const ranks = Array.from({ length: split.pp }, (_, rank) => rankOf(shape, layout, split, rank))
  return { stages, layers: shape.layers, ...(excess && { excess }), ranks, ...alike(ranks) }
}

/** Some of its ranks, without the others. */
export function someRanksOf(shape: Shape, split: Split, ranks: readonly number[]): PipelineRank[] {
  const layout = layoutOf(shape, split)
  return ranks.map(rank => rankOf(shape, layout, split, rank))
}

/** Layers of each stage: of an even split the earlier ones get the remainder. */
export const stagesOf = (shape: Shape, { layers, pp, chunks }: Split): readonly number[] =>
  layers ?? evenParts(shape.layers, pp * chunks)

function layoutOf(shape: Shape, split: Split): StageLayers {
  const stages = stagesOf(shape, split)
  const before = sumsBefore(stages)
  const excess = comeFirst(shape) ? excessOf(shape, stages, before) : undefined
  return { stages, before, excess, excessBefore: excess && sumsBefore(excess) }
}

function sumsBefore(each: readonly number[]): number[] {
  const sums = [0]
  for (let i = 0; i < each.length; i++) sums.push(sums[i] + each[i])
  return sums
}

/**
 * A pipeline as the fewest microbatches pass it that tell how more of them do: one, or two that come from both ends. Of an odd number of
 * those the last is left out.
 */
export interface BarePipeline {
  readonly pipeline: Pipeline
  readonly microbatches: number
}

export function barePipeline(shape: Shape, split: Split): BarePipeline {
  const microbatches = isFedFromBothEnds(split.schedule) ? 2 : 1
  return { pipeline: pipelineOf(shape, { ...split, microbatches }), microbatches }
}

const excessOf = (shape: Shape, stages: readonly number[], before: readonly number[]): number[] =>
  stages.map((layers, stage) => denseIn(shape, layers, before[stage]) - layers * (1 - routedShare(shape)))

function alike(ranks: readonly PipelineRank[]): Pick<Pipeline, 'firsts' | 'lasts'> {
  const [firsts, lasts]: PipelineRank[][] = [[], []]
  for (const rank of ranks) {
    const at = firsts.findIndex(other => doesAsMuch(rank, other))
    if (at < 0) {
      firsts.push(rank)
      lasts.push(rank)
    } else if (rank.stagesBefore >= lasts[at].stagesBefore) lasts[at] = rank
  }
  return { firsts, lasts }
}

const doesAsMuch = (a: PipelineRank, b: PipelineRank): boolean =>
  a.stages.length === b.stages.length &&
  a.layers === b.layers &&
  a.first === b.first &&
  a.last === b.last &&
  a.turns === b.turns &&
  a.layerTurns === b.layerTurns &&
  a.excessTurns === b.excessTurns &&
  a.firstTurns === b.firstTurns &&
  a.lastTurns === b.lastTurns

/** Layers of each stage, and of all before it; and their excess, likewise. */
interface StageLayers {
  readonly stages: readonly number[]
  readonly before: readonly number[]
  readonly excess: readonly number[] | undefined
  readonly excessBefore: readonly number[] | undefined
}

// Written out: a search makes ten thousand of these.
function rankOf(shape: Shape, layout: StageLayers, split: Split, rank: number): PipelineRank {
  const { stages, before, excess, excessBefore } = layout
  const visits = visitsOf(split, rank)
  const end = stages.length - 1
  const own: number[] = []
  let nearest = end
  let layers = 0
  let dense = 0
  let turns = 0
  let layerTurns = 0
  let firstTurns = 0
  let lastTurns = 0
  let excessTurns = 0
  for (const { stage, times } of visits) {
    own.push(stage)
    nearest = Math.min(nearest, stage)
    layers += stages[stage]
    dense += denseIn(shape, stages[stage], before[stage])
    turns += times
    layerTurns += times * stages[stage]
    if (excess) excessTurns += times * excess[stage]
    if (stage === 0) firstTurns += times
    if (stage === end) lastTurns += times
  }
  return {
    stages: own,
    layers,
    dense: shape.experts && shape.experts.dense > 0 ? dense : undefined,
    first: own.includes(0),
    last: own.includes(end),
    turns,
    layerTurns,
    firstTurns,
    lastTurns,
    stagesBefore: nearest,
    layersBefore: before[nearest],
    excessTurns,
    excessBefore: excessBefore ? excessBefore[nearest] : 0,
  }
}

/** Layers without experts come first, or are spread evenly. */
function denseIn({ layers, experts }: Shape, own: number, before: number): number {
  const { dense = 0, spread } = experts ?? {}
  return spread ? (own * dense) / layers : Math.max(0, Math.min(own, dense - before))
}

interface Visit {
  readonly stage: number
  readonly times: number
}

/** Stages of a rank, round and round, down and up a V, or from both ends; and how many microbatches pass them there. */
function visitsOf({ schedule, pp, chunks, microbatches }: Split, rank: number): Visit[] {
  const { placement } = scheduleFacts[schedule]
  if (placement === 'both ends' && rank !== pp - 1 - rank && microbatches > 1) {
    const down = Math.ceil(microbatches / 2)
    return [
      { stage: rank, times: down },
      { stage: pp - 1 - rank, times: microbatches - down },
    ]
  }
  const stageOf = (chunk: number) => (placement === 'v' && chunk === 1 ? 2 * pp - 1 - rank : chunk * pp + rank)
  const visits: Visit[] = []
  for (let chunk = 0; chunk < chunks; chunk++) visits.push({ stage: stageOf(chunk), times: microbatches })
  return visits
}

/** Every stage has two holders, one for each direction. */
export const isHeldTwice = ({ schedule, pp, microbatches }: Split): boolean =>
  isFedFromBothEnds(schedule) && microbatches > 1 && pp > 1

export const isFedFromBothEnds = (schedule: ScheduleName): boolean => scheduleFacts[schedule].placement === 'both ends'

/** Every backward pass is two calls. */
export const splitsAll = ({ schedule }: Pick<Split, 'schedule'>): boolean =>
  scheduleFacts[schedule].backward === 'split'

/** ZeRO-3: all parameters of a layer are fetched for one call, and not each for its own use. */
export const fetchesWhole = (split: Split): boolean => split.recompute === 'full' || splitsAll(split)

/** Gradients leave after each microbatch. */
export const reducesEach = (split: Pick<Split, MeshAxis | 'etp' | 'zero' | 'reduce'>): boolean =>
  split.zero >= 2 && hasCopies(split) && split.reduce !== 'step'

/** Parameters come for each use. */
export const fetchesEach = (split: Pick<Split, MeshAxis | 'etp' | 'zero' | 'gather' | 'lifted'>): boolean =>
  split.zero === 3 && isFetched(split) && split.gather !== 'step'

/** Parameters are not where they are computed with. */
export const isFetched = (split: Pick<Split, MeshAxis | 'etp' | 'lifted'>): boolean =>
  hasCopies(split) || split.lifted !== undefined
