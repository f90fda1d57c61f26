/** Why a plan costs what it costs, in words of both languages: asked when the numbers are there, which need none of them. */
import { asSimulated, limitSentence, type Parts, priceOf, readingOf, requestOfJob, splitOf } from 'lockstep'
import { type Link, readLink } from './link.js'
import { type InBoth, inBoth } from './said.js'

export interface Said {
  readonly topic?: string
  readonly text: InBoth
}

export interface WhyInput {
  readonly link: Link
  /** The numbers of its program, once it was simulated. */
  readonly exact?: { readonly step: number; readonly parts: Parts; readonly arena: number }
}

/** Refused where the model has no closed form. */
export async function why({ link, exact }: WhyInput): Promise<readonly Said[]> {
  const { job, cluster } = await readLink(link)
  const request = requestOfJob(job, cluster)
  const estimated = priceOf(request, splitOf(job, '1f1b'))
  const { model, hardware } = estimated.estimate.flops
  const plan = exact ? asSimulated(estimated, { ...exact, recomputed: hardware - model }) : estimated
  const reading = readingOf(request, plan).map(({ topic, ...sentence }) => ({ topic, text: inBoth(sentence) }))
  return [{ text: inBoth(limitSentence(plan)) }, ...reading]
}
