/**
 * Blocks into stages. What comes before the layers goes with the first stage, what comes after with the last. Where no block
 * says that it is a layer, those between the first and the last of a repeated kind are.
 */
import type { Block } from '../model/index.js'
import { layersPerStage, type Plan, stagesOf } from '../plan/index.js'

/** The stage of each block. */
export function cut(blocks: readonly Block[], plan: Plan): number[] {
  const stages = stagesOf(plan)
  const [first, last] = layerRange(blocks)
  const perStage = layersPerStage(plan, last - first)
  const stageOf = perStage.flatMap((count, stage) => new Array<number>(count).fill(stage))
  return blocks.map((_, i) => (i < first ? 0 : i >= last ? stages - 1 : stageOf[i - first]))
}

/** [first, last) of the layers. */
function layerRange(blocks: readonly Block[]): [number, number] {
  const layers = blocks.map(({ layer }) => layer === true)
  if (layers.includes(true)) return [layers.indexOf(true), layers.lastIndexOf(true) + 1]
  const repeated = blocks.map((block, i) => blocks.some((other, j) => j !== i && other.kind === block.kind))
  return repeated.includes(true) ? [repeated.indexOf(true), repeated.lastIndexOf(true) + 1] : inner(blocks)
}

/** Nothing repeats (a one-layer model): the layers are what stands between the first and the last block. */
const inner = (blocks: readonly Block[]): [number, number] =>
  blocks.length > 2 ? [1, blocks.length - 1] : [0, blocks.length]
