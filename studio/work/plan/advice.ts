/**
 * What to try next, and what not: plans one decision away, by price; those that promise most are compiled and simulated too, so that
 * what a suggestion predicts is what is shown once it is taken.
 */
import {
  type Job,
  type Neighbour,
  neighboursOf,
  planOf,
  priceOf,
  type Request,
  reasonSentence,
  requestOfJob,
  type Sentence,
  showSentence,
  splitOf,
  verdictSentence,
} from 'lockstep'
import type { Context } from '../modules.js'
import { build } from './exact.js'
import { type Asked, asPlan, type Changes, type Link, linkOfPlan, readLink } from './link.js'

export interface Suggestion {
  /** What is decided differently. */
  readonly change: Sentence
  readonly verdict: Sentence
  readonly reason: Sentence
  /** The three in English, until pages have words of their own for them. */
  readonly english: { readonly change: string; readonly verdict: string; readonly reason: string }
  /** Present where there is such a plan. */
  readonly link?: Changes
  /** By price. */
  readonly step?: number
  readonly bytes?: number
  /** Of the program itself, where it was compiled. */
  readonly exact?: { readonly step: number; readonly bytes: number; readonly fits: boolean }
}

export interface Advice {
  readonly link: Link
  readonly step: number
  readonly try: readonly Suggestion[]
  readonly not: readonly Suggestion[]
}

/** So many are compiled. */
const most = 5

/** Tells what it knows after every program. */
export async function advice(link: Link, { progress }: Context): Promise<Advice> {
  const asked = await readLink(link)
  const request = requestOfJob(asked.job, asked.cluster)
  const from = priceOf(request, splitOf(asked.job, '1f1b'))
  const all = neighboursOf(request, from)
  const suggestions = await Promise.all(all.map(one => suggested(asked, request, one)))
  const own = build(asked).forecast.step
  const state = { link, suggestions, own }
  progress(sorted(state))
  const hopeful = suggestions.flatMap((one, n) => (one.link && isHopeful(one, from.estimate.step) ? [n] : []))
  for (const n of hopeful.slice(0, most)) {
    suggestions[n] = { ...suggestions[n]!, ...exactly(asked, suggestions[n]!, all[n]!) }
    progress(sorted(state))
  }
  return sorted(state)
}

const isHopeful = ({ step, verdict }: Suggestion, now: number): boolean =>
  step !== undefined && step < now * 0.9995 && verdict.code === 'verdict/faster'

async function suggested(asked: Asked, request: Request, one: Neighbour): Promise<Suggestion> {
  const { move, verdict, plan } = one
  const isPlan = plan && (verdict.kind === 'timed' || verdict.kind === 'unfit')
  const said = { change: move.change, verdict: verdictSentence(verdict), reason: reasonSentence(one) }
  const { change, reason } = said
  return {
    ...said,
    english: { change: showSentence(change), verdict: showSentence(said.verdict), reason: showSentence(reason) },
    ...(isPlan && {
      ...{ step: plan.estimate.step, bytes: plan.bytes },
      link: await linkOfPlan(asked, planOfSplit(asked.job, request, one)),
    }),
  }
}

/** What a search does not decide stays as it is. */
function planOfSplit({ plan }: Job, request: Request, { plan: next }: Neighbour): Job['plan'] {
  const { overlap, order, deviceMemory, zigzag } = plan
  return asPlan({
    ...{ overlap, order },
    ...(deviceMemory !== undefined && { deviceMemory }),
    ...(zigzag !== undefined && { zigzag }),
    ...planOf(request, next!.split), // asked for plans that there are
  })
}

function exactly(asked: Asked, one: Suggestion, neighbour: Neighbour): Pick<Suggestion, 'exact'> {
  const request = requestOfJob(asked.job, asked.cluster)
  try {
    const { forecast } = build({ ...asked, job: { ...asked.job, plan: planOfSplit(asked.job, request, neighbour) } })
    const { step, memory } = forecast
    return { exact: { step, bytes: memory.arena, fits: memory.arena <= memory.usable } }
  } catch {
    return one.exact ? { exact: one.exact } : {} // what cannot be compiled stays with its price
  }
}

interface State {
  readonly suggestions: readonly Suggestion[]
  readonly own: number
  readonly link: Link
}

/** What was compiled goes by its program, the others by their price. */
function sorted({ suggestions, own, link }: State): Advice {
  const isGain = ({ exact, verdict }: Suggestion) =>
    exact ? exact.fits && exact.step < own * 0.9995 : verdict.code === 'verdict/faster'
  const time = ({ exact, step = Number.POSITIVE_INFINITY }: Suggestion) => exact?.step ?? step
  const gains = suggestions.filter(isGain).sort((a, b) => time(a) - time(b))
  return { link, step: own, try: gains, not: suggestions.filter(one => !isGain(one)) }
}
