/** As few layers as do the same: every stage that has layers of a kind keeps one of that kind. */
import type { LlamaConfig } from '../model/index.js'
import { layersPerStage, stagesOf } from './layers.js'
import type { Job, Plan } from './schema.js'

export interface FewerLayers {
  /** Of the model: how many there are, and which of them are routed. */
  readonly model: { readonly layers: number } & Partial<Pick<LlamaConfig, 'moe'>>
  readonly split: Plan['layers']
}

/** For a plan that may have fewer stages than the job's. */
export function fewerLayers(job: Job, small: Plan): FewerLayers {
  const { model, plan } = job
  if (model.family === 'llama' && model.moe) return ofEveryKind({ ...job, model }, small)
  const stages = stagesOf(small)
  if (plan.layers === 'even') return { model: { layers: Math.min(model.layers, Math.max(2, stages)) }, split: 'even' }
  if (Array.isArray(plan.layers)) {
    const { layers: asked } = plan
    const split = Array.from({ length: stages }, (_, i) => Math.min(1, asked[from(i, stages, asked.length)]))
    return { model: { layers: sumOf(split) }, split }
  }
  if (stages === 1) return { model: { layers: Math.min(model.layers, 2) }, split: 'even' }
  const { first, last } = plan.layers
  const split = {
    ...(first === undefined ? {} : { first: Math.min(first, 1) }),
    ...(last === undefined ? {} : { last: Math.min(last, 1) }),
  }
  return { model: { layers: stages - (split.first === 0 ? 1 : 0) - (split.last === 0 ? 1 : 0) }, split }
}

/**
 * Where some layers are routed: of the layers before them one in every stage that has any, of the others as many as it takes for
 * one to be routed.
 */
function ofEveryKind({ model, plan }: Job & { model: LlamaConfig }, small: Plan): FewerLayers {
  const moe = model.moe!
  const every = Math.min(moe.every, 2)
  const held = layersPerStage(plan, model.layers)
  const stages = stagesOf(small)
  const kinds = Array.from({ length: stages }, (_, i) => {
    const stage = from(i, stages, held.length)
    const start = sumOf(held.slice(0, stage))
    const dense = Math.min(held[stage], Math.max(0, moe.dense - start))
    return { dense: Math.min(dense, 1), others: held[stage] > dense ? every : 0 }
  })
  // Layers still repeat where there is but one stage.
  const more = stages === 1 && every === 1 ? 1 : 0
  const split = kinds.map(({ dense, others }) => dense + others + more)
  const dense = sumOf(kinds.map(kind => kind.dense))
  return { model: { layers: sumOf(split), moe: { ...moe, dense, every } }, split: stages === 1 ? 'even' : split }
}

const sumOf = (counts: readonly number[]): number => counts.reduce((a, b) => a + b, 0)

/** The first and the last stay first and last. */
const from = (i: number, stages: number, before: number): number =>
  stages === 1 ? 0 : Math.round((i * (before - 1)) / (stages - 1))
