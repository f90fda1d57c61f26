/** Another model, cluster, sequence or batch under the same plan, as far as that is possible; else with a plan to begin with. */

import { following, planWith } from './choices.js'
import { type Changes, type Link, linkOfPlan, readLink } from './link.js'

export interface AdaptInput {
  readonly link: Link
  readonly changes: Changes
}

export async function adapt({ link, changes }: AdaptInput): Promise<Changes> {
  const plan = await kept(link, changes).catch(() => undefined)
  if (plan) return plan
  return { ...changes, ...('model' in changes && { seq: undefined }), plan: undefined }
}

/** The same axes; dp takes what there is, and a microbatch has as many sequences as before. */
async function kept(link: Link, changes: Changes): Promise<Changes | undefined> {
  const { job } = await readLink(link)
  const { tp, cp, pp } = job.plan
  // Read with a plan that suits any cluster: only its model, cluster and batch are of interest.
  const asked = await readLink({ ...link, ...changes, plan: undefined })
  const dp = asked.cluster.devices / (tp * cp * pp)
  if (!Number.isInteger(dp)) return
  const batch = asked.job.training.globalBatch
  const moved = following({ plan: job.plan, from: job.training.globalBatch, to: batch }, { dp }, [])
  const plan = planWith(job.plan, moved)
  const next = { ...changes, ...(await linkOfPlan(asked, plan)) }
  await readLink({ ...link, ...next }) // throws what is wrong with it
  return next
}
