/** What the plan's page asks while a control moves: what a link says, what can be chosen instead, and prices. */
import { type Cluster, deviceNames, type Problem, presets } from 'lockstep'
import { type Link, readLink } from './plan/link.js'
import { showWord } from './plan/words.js'

export { adapt } from './plan/adapt.js'
export { choices } from './plan/choices.js'
export { price } from './plan/price.js'

/** What there is to choose from, whatever the plan. */
export const catalog = (_: null) => ({ models: Object.keys(presets), devices: deviceNames })

export interface PlanRead {
  /** A preset; own models have none. */
  readonly model?: string
  readonly name?: string
  readonly seq: number
  readonly batch: number
  readonly plan: string
  readonly cluster: Cluster
  readonly warnings: readonly Problem[]
}

/** What the link says, with everything that it leaves out; refused with all that is wrong. */
export async function read(link: Link): Promise<PlanRead> {
  const { job, cluster, warnings, model } = await readLink(link)
  const { seq, globalBatch: batch } = job.training
  return {
    ...{ seq, batch, cluster, warnings, plan: showWord(job.plan).word },
    ...(model !== undefined && { model }),
    ...(job.name !== undefined && { name: job.name }),
  }
}
