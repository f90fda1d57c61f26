/**
 * What to try next, and what not: plans one decision away, by price; those that promise most are compiled and simulated too, so that
 * what a suggestion predicts is what is shown once it is taken.
 */
import {
  type Neighbour,
  neighboursOf,
  priceOf,
  type Request,
  reasonSentence,
  requestOfJob,
  splitOf,
  verdictSentence,
} from 'lockstep'
import type { Context } from '../modules.js'
import { build } from './exact.js'
import { type Asked, type Changes, type Link, linkOfPlan, planWithSplit, readLink } from './link.js'
import { type InBoth, inBoth } from './said.js'

export interface Suggestion {
  /** What is decided differently. */
  readonly change: InBoth
  readonly verdict: InBoth
  readonly reason: InBoth
  /** Faster, by price. */
  readonly faster: boolean
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

export interface AdviceInput {
  readonly link: Link
  /** Exact seconds of its step: its program is not compiled once more. */
  readonly step: number
}

/** Tells what it knows after every program. */
export async function advice({ link, step: own }: AdviceInput, { progress }: Context): Promise<Advice> {
  const asked = await readLink(link)
  const request = requestOfJob(asked.job, asked.cluster)
  const from = priceOf(request, splitOf(asked.job, '1f1b'))
  const all = neighboursOf(request, from)
  const suggestions = await Promise.all(all.map(one => suggested(asked, request, one)))
  const state = { link, suggestions, own }
  progress(sorted(state))
  const hopeful = suggestions.flatMap((one, n) => (one.link && isHopeful(one, from.estimate.step) ? [n] : []))
  for (const n of hopeful.slice(0, most)) {
    suggestions[n] = { ...suggestions[n]!, ...exactly(asked, suggestions[n]!, all[n]!) }
    progress(sorted(state))
  }
  return sorted(state)
}

const isHopeful = ({ step, faster }: Suggestion, now: number): boolean =>
  faster && step !== undefined && step < now * 0.9995

async function suggested(asked: Asked, request: Request, one: Neighbour): Promise<Suggestion> {
  const { move, verdict, plan } = one
  const isPlan = plan && (verdict.kind === 'timed' || verdict.kind === 'unfit')
  const said = verdictSentence(verdict)
  return {
    ...{ change: inBoth(move.change), verdict: inBoth(said), reason: inBoth(reasonSentence(one)) },
    faster: said.code === 'verdict/faster',
    ...(isPlan && {
      ...{ step: plan.estimate.step, bytes: plan.bytes },
      link: await linkOfPlan(asked, planWithSplit(asked.job, request, one.plan!)),
    }),
  }
}

function exactly(asked: Asked, one: Suggestion, neighbour: Neighbour): Pick<Suggestion, 'exact'> {
  const request = requestOfJob(asked.job, asked.cluster)
  try {
    const { forecast } = build({
      ...asked,
      job: { ...asked.job, plan: planWithSplit(asked.job, request, neighbour.plan!) },
    })
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
  const isGain = ({ exact, faster }: Suggestion) => (exact ? exact.fits && exact.step < own * 0.9995 : faster)
  const time = ({ exact, step = Number.POSITIVE_INFINITY }: Suggestion) => exact?.step ?? step
  const gains = suggestions.filter(isGain).sort((a, b) => time(a) - time(b))
  return { link, step: own, try: gains, not: suggestions.filter(one => !isGain(one)) }
}
