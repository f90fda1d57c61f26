/**
 * Where the reader is: `#/path?query`. Every state of a page is a link, so pages keep what can be chosen here and nowhere else.
 * While a slider moves, the present entry of the history is replaced; letting go makes a new one, which Back undoes.
 */
import { computed, signal } from '@preact/signals'

export interface Place {
  /** `plan`, `learn/zero`: without slashes at its ends. */
  readonly path: string
  readonly query: Readonly<Record<string, string>>
}

/** Reads a hash; whatever stands there gives a place. */
export function readPlace(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#/, '').split(/\?(.*)/s)
  return { path: path.replace(/^\/+|\/+$/g, ''), query: Object.fromEntries(new URLSearchParams(query)) }
}

export type Changes = Readonly<Record<string, string | undefined>>

/** What is undefined or empty does not stand in a link. */
export const givenIn = (query: Changes): Place['query'] =>
  Object.fromEntries(Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1])))

/** Keys in the order they were given. */
export function showPlace(path: string, query: Changes = {}): string {
  // Commas, colons and stars are allowed behind a hash, and links are read by people.
  const text = new URLSearchParams(givenIn(query)).toString().replace(/%(2C|3A|2A|2F|40)/g, decodeURIComponent)
  return `#/${path}${text && `?${text}`}`
}

export const place = signal<Place>({ path: '', query: {} })
export const path = computed(() => place.value.path)

/** A link to another place: the language and the theme of this one go along. Inside a component, which follows both. */
export function linkTo(path: string, query: Changes = {}): string {
  const { lang, theme } = place.value.query
  return showPlace(path, { ...query, lang, theme })
}

/** The whole address of where the reader is. */
export const address = (): string => new URL(showPlace(place.value.path, place.value.query), location.href).href

/** The entry as it was before a control began to move: Back leads there, not to where the control was on its way. */
let before: string | undefined

interface Entry {
  readonly how: 'replaceState' | 'pushState'
  readonly hash: string
}

/**
 * What the history is not told yet. A browser takes longer over an entry than the core over a price, and a control that moves makes
 * three: they are written when it rests, or before anything else leads away.
 */
let unwritten: readonly Entry[] = []
let resting: ReturnType<typeof setTimeout> | undefined
/** Milliseconds after which a control is at rest. */
const rest = 150

function writeLater(how: Entry['how'], hash: string): void {
  const last = unwritten.at(-1)
  const isReplaced = how === 'replaceState' && last !== undefined
  unwritten = isReplaced ? [...unwritten.slice(0, -1), { how: last.how, hash }] : [...unwritten, { how, hash }]
  resting ??= setTimeout(writeHistory, rest)
}

/** Tells the history now. */
export function writeHistory(): void {
  for (const { how, hash } of unwritten) if (how === 'pushState' || hash !== location.hash) history[how](null, '', hash)
  forget()
}

function forget(): void {
  clearTimeout(resting)
  resting = undefined
  unwritten = []
}

/** Whether a page is being left: what its fields still say is not for the link of the next one. */
let leaving = false

/** A field that is taken out of the page with text just typed says so, which would be written where the reader is by then. */
function leaveFields(): void {
  const { activeElement: field } = document
  if (!(field instanceof HTMLElement) || !field.matches('main :is(input, textarea)')) return
  leaving = true
  field.blur()
  leaving = false
}

/** Changes some of the query: `pushed`, Back leads to what was before. */
export function setQuery(changes: Changes, pushed = false): void {
  if (leaving) return
  const { path, query } = place.peek()
  const here = showPlace(path, query)
  const next = showPlace(path, { ...query, ...changes })
  if (!pushed) {
    if (next === here) return
    before ??= here
    writeLater('replaceState', next)
  } else {
    const isMoved = before !== undefined
    const from = before ?? here
    before = undefined
    if (next === from && next === here) return
    writeLater('replaceState', from)
    if (next !== from) writeLater('pushState', next)
    if (!isMoved) writeHistory()
  }
  // A control that comes to rest where it was moved to changes nothing but the history.
  if (next !== here) place.value = readPlace(next)
}

/** Changes what Back is not to undo: the language, the theme. */
export function amendQuery(changes: Changes): void {
  const { path, query } = place.peek()
  const next = showPlace(path, { ...query, ...changes })
  writeLater('replaceState', next)
  writeHistory()
  place.value = readPlace(next)
}

export function go(path: string, query: Changes = {}): void {
  writeHistory()
  location.hash = showPlace(path, query)
}

export function startRouter(): void {
  const read = () => {
    before = undefined
    forget()
    const next = readPlace(location.hash)
    if (next.path !== place.peek().path) leaveFields()
    place.value = next
  }
  addEventListener('hashchange', read)
  addEventListener('popstate', read)
  addEventListener('click', writeHistory, { capture: true })
  addEventListener('pagehide', writeHistory)
  read()
}
