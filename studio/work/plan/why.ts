/** Why a plan costs what it costs, in words of both languages: asked when the numbers are there, which need none of them. */
import { limitSentence, priceOf, readingOf, requestOfJob, splitOf } from 'lockstep'
import { type Link, readLink } from './link.js'
import { type InBoth, inBoth } from './said.js'

export interface Said {
  readonly topic?: string
  readonly text: InBoth
}

/** Refused where the model has no closed form. */
export async function why(link: Link): Promise<readonly Said[]> {
  const { job, cluster } = await readLink(link)
  const request = requestOfJob(job, cluster)
  const plan = priceOf(request, splitOf(job, '1f1b'))
  const reading = readingOf(request, plan).map(({ topic, ...sentence }) => ({ topic, text: inBoth(sentence) }))
  return [{ text: inBoth(limitSentence(plan)) }, ...reading]
}
