/** Which layers a pipeline rank holds, and whether it holds the embedding and the head. */
import { dataRanks, type MeshAxis } from '../../base/index.js'
import { type ScheduleName, scheduleFacts } from '../../plan/index.js'
import type { Split } from '../setup.js'
import type { Shape } from '../shape.js'

export interface RankLayers {
  readonly layers: number
  readonly first: boolean
  readonly last: boolean
}

/** Stages of a rank: round and round, down and up a V, or (DualPipe) from both ends. */
function stageOf({ schedule, pp, chunks }: Split, rank: number, chunk: number): number {
  const mirrored = scheduleFacts[schedule].placement === 'v' && chunks === 2 && chunk === 1
  return mirrored ? 2 * pp - 1 - rank : chunk * pp + rank
}

/** Of an even split the earlier stages get the remainder. */
function layersOfStage({ layers }: Shape, split: Split, stage: number): number {
  if (split.layers) return split.layers[stage]
  const stages = split.pp * split.chunks
  return Math.floor(layers / stages) + (stage < layers % stages ? 1 : 0)
}

/** Layers of one of a rank's stages. */
export const layersOfChunk = (shape: Shape, split: Split, rank: number, chunk: number): number =>
  layersOfStage(shape, split, stageOf(split, rank, chunk))

export function layersOfRank(shape: Shape, split: Split, rank: number): RankLayers {
  const stages = split.pp * split.chunks
  let layers = 0
  let first = false
  let last = false
  for (let chunk = 0; chunk < split.chunks; chunk++) {
    const stage = stageOf(split, rank, chunk)
    layers += layersOfStage(shape, split, stage)
    first ||= stage === 0
    last ||= stage === stages - 1
  }
  if (!meetsItself(split, rank)) return { layers, first, last }
  const other = split.pp - 1 - rank
  return { layers: layers + layersOfStage(shape, split, other), first: first || last, last: first || last }
}

export const isFedFromBothEnds = (schedule: ScheduleName): boolean => scheduleFacts[schedule].placement === 'both ends'

/** A rank holds its stage and the mirrored one. */
const meetsItself = ({ schedule, pp, microbatches }: Split, rank: number): boolean =>
  isFedFromBothEnds(schedule) && microbatches > 1 && pp - 1 - rank !== rank

/** Of what it holds, what a microbatch passes: fed from both ends, one of two stages. */
export const shareOfMicrobatches = (split: Split): number => (meetsItself(split, 0) ? 0.5 : 1)

/**
 * Ranks of which one is the heaviest. Along ranks that hold equal stages, load changes in one direction: only the ends
 * of such runs count.
 */
export function ranksToWeigh({ layers }: Shape, split: Split): readonly number[] {
  const { pp, chunks } = split
  if (pp === 1) return []
  // Fed from both ends it is fullest somewhere between.
  if (isFedFromBothEnds(split.schedule)) return Array.from({ length: pp - 1 }, (_, i) => i + 1)
  if (split.layers) return endsOfRuns(split, split.layers)
  const edge = ((layers % (pp * chunks)) % pp) - 1
  return edge > 0 && edge < pp - 2 ? [1, edge, pp - 2, pp - 1] : [1, pp - 2, pp - 1]
}

function endsOfRuns(split: Split, layers: readonly number[]): number[] {
  const { pp, chunks } = split
  const held = (rank: number) =>
    Array.from({ length: chunks }, (_, chunk) => layers[stageOf(split, rank, chunk)]).join()
  const ends = new Set([1, pp - 2, pp - 1])
  for (let rank = 1; rank < pp; rank++) if (held(rank) !== held(rank - 1)) ends.add(rank - 1).add(rank)
  return [...ends].filter(rank => rank > 0)
}

/** Every backward pass is two calls. */
export const splitsAll = ({ schedule }: Pick<Split, 'schedule'>): boolean =>
  scheduleFacts[schedule].backward === 'split'

/** ZeRO-3: all parameters of a layer are fetched for one call, and not each for its own use. */
export const fetchesWhole = (split: Split): boolean => split.recompute === 'full' || splitsAll(split)

/** Gradients leave after each microbatch. */
export const reducesEach = (split: Pick<Split, MeshAxis | 'zero' | 'reduce'>): boolean =>
  split.zero >= 2 && dataRanks(split) > 1 && split.reduce !== 'step'

/** Parameters come for each use. */
export const fetchesEach = (split: Pick<Split, MeshAxis | 'zero' | 'gather'>): boolean =>
  split.zero === 3 && dataRanks(split) > 1 && split.gather !== 'step'
