/**
 * Blocks into stages. The blocks between the first and the last run of a repeated kind are the layers; what comes before
 * goes with the first stage, what comes after with the last. Without a list, the stages that also hold the embedding
 * or the head are the ones that go short when layers do not divide.
 */
import type { Block } from '../model/index.js'
import type { Plan } from '../plan/index.js'

/** The stage of each block. */
export function cut(blocks: readonly Block[], stages: number, layers: Plan['layers']): number[] {
  const [first, last] = layerRange(blocks)
  const perStage = layersPerStage(last - first, stages, layers)
  const stageOf = perStage.flatMap((count, stage) => new Array<number>(count).fill(stage))
  return blocks.map((_, i) => (i < first ? 0 : i >= last ? stages - 1 : stageOf[i - first]))
}

/** [first, last) of the layers. */
export function layerRange(blocks: readonly Block[]): [number, number] {
  const repeated = blocks.map((block, i) => blocks.some((other, j) => j !== i && other.kind === block.kind))
  return repeated.includes(true) ? [repeated.indexOf(true), repeated.lastIndexOf(true) + 1] : inner(blocks)
}

/** Nothing repeats (a one-layer model): the layers are what stands between the first and the last block. */
const inner = (blocks: readonly Block[]): [number, number] =>
  blocks.length > 2 ? [1, blocks.length - 1] : [0, blocks.length]

export function layersPerStage(layers: number, stages: number, wish: Plan['layers']): number[] {
  if (wish !== 'even' && 'length' in wish) return [...wish]
  const { first, last } = wish === 'even' ? {} : wish
  const free = Array.from({ length: stages }, (_, stage) => stage).filter(
    stage => !(stage === 0 && first !== undefined) && !(stage === stages - 1 && last !== undefined && stages > 1),
  )
  const rest = layers - (first ?? 0) - (stages > 1 ? (last ?? 0) : 0)
  const counts = new Array<number>(stages).fill(Math.floor(rest / Math.max(1, free.length)))
  const generous = shortLast(free, stages).slice(0, free.length === 0 ? 0 : rest % free.length)
  for (const stage of generous) counts[stage]++
  if (first !== undefined) counts[0] = first
  if (last !== undefined && stages > 1) counts[stages - 1] = last
  return counts
}

/** Inner stages first, then the first, then the last: the order in which stages get one layer more. */
const shortLast = (free: readonly number[], stages: number): number[] =>
  [...free].sort((a, b) => weight(a, stages) - weight(b, stages) || a - b)

const weight = (stage: number, stages: number): number => (stage === stages - 1 ? 2 : stage === 0 ? 1 : 0)
