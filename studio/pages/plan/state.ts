/** What of the link is the plan's, and the ways to change it. */
import { givenIn, place, setQuery } from '../../base/router.js'
import { ask, askAhead } from '../../work/ask.js'
import type { Control, Offer } from '../../work/plan/choices.js'
import type { Changes, Link } from '../../work/plan/link.js'

const keys = ['model', 'on', 'seq', 'batch', 'plan', 'j', 'net', 'mem', 'slow', 'jitter', 'mtbf', 'tokens'] as const

export function linkOf(query: Readonly<Record<string, string>>): Link {
  return Object.fromEntries(keys.flatMap(key => (query[key] === undefined ? [] : [[key, query[key]]])))
}

/** A link within a link: the plan that another is compared with. */
export const showLink = (link: Link): string =>
  new URLSearchParams(Object.entries(link).filter((entry): entry is [string, string] => Boolean(entry[1]))).toString()

/** Of older links: a plan of the same job, as one word. */
export const readShown = (text: string, link: Link): Link =>
  text.includes('=') ? linkOf(Object.fromEntries(new URLSearchParams(text))) : { ...link, plan: text }

/** What of the link changes for the page to show another: all that is a plan's. */
export const opened = (link: Link): Changes => Object.fromEntries(keys.map(key => [key, link[key]]))

/** One control moves: the present entry is replaced, and its price is on its way before the page is drawn. */
export function move(changes: Changes): void {
  askAhead(['plan', 'price'], linkOf(givenIn({ ...place.peek().query, ...changes })))
  setQuery(changes)
}
/** It has come to rest: Back leads to what was before. */
export const settle = (changes: Changes): void => setQuery(changes, true)

/** Whether what was offered can be chosen here: the page has the plan that it was offered for, or one that this control has led to. */
export function isOffered({ link, pins }: Offer, { choices }: Control): boolean {
  const { query } = place.peek()
  const here = showLink(linkOf(query))
  const leadsHere = (changes: Changes = {}) => showLink(linkOf(givenIn({ ...link, ...changes }))) === here
  return String(pins) === String(pinsOf(query)) && (leadsHere() || choices.some(({ link }) => link && leadsHere(link)))
}

/** A value is chosen. Controls of another plan stay until those of this one are there: what is chosen there is meant for this one. */
export async function choose(offer: Offer, control: Control, value: string): Promise<void> {
  if (isOffered(offer, control)) {
    const link = control.choices.find(choice => choice.value === value)?.link
    if (link) settle(link)
    return
  }
  const { query } = place.peek()
  const asked = ask('fast', ['plan', 'choices'], { link: linkOf(query), pins: pinsOf(query) })
  const now = await asked.catch(() => undefined) // the page says why
  const same = now?.controls.find(({ field }) => field === control.field)
  if (now && same) await choose(now, same, value)
}

/** Another model, cluster or batch: the plan comes along where it can. */
export async function adapt(changes: Changes): Promise<void> {
  const link = linkOf(place.peek().query)
  settle(await ask('fast', ['plan', 'adapt'], { link, changes }))
}

export const tabs = ['overview', 'timeline', 'memory', 'topology', 'search', 'compare', 'job'] as const
export type Tab = (typeof tabs)[number]
export const tabOf = (name: string | undefined): Tab => tabs.find(tab => tab === name) ?? 'overview'

export const pinsOf = (query: Readonly<Record<string, string>>): readonly string[] =>
  (query.pin ?? '').split(',').filter(Boolean)

export const togglePin = (name: string): void => {
  const pins = pinsOf(place.peek().query)
  const next = pins.includes(name) ? pins.filter(pin => pin !== name) : [...pins, name]
  settle({ pin: next.join(',') || undefined })
}
