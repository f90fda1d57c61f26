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

/** Keys in the order they were given; what is undefined or empty is left out. */
export function showPlace(path: string, query: Readonly<Record<string, string | undefined>> = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]))
  // Commas, colons and stars are allowed behind a hash, and links are read by people.
  const text = new URLSearchParams(given).toString().replace(/%(2C|3A|2A|2F|40)/g, decodeURIComponent)
  return `#/${path}${text && `?${text}`}`
}

export const place = signal<Place>({ path: '', query: {} })
export const path = computed(() => place.value.path)

export type Changes = Readonly<Record<string, string | undefined>>

/** The entry as it was before a control began to move: Back leads there, not to where the control was on its way. */
let before: string | undefined

/** Changes some of the query: `pushed`, Back leads to what was before. */
export function setQuery(changes: Changes, pushed = false): void {
  const { path, query } = place.peek()
  const here = showPlace(path, query)
  const next = showPlace(path, { ...query, ...changes })
  if (!pushed) {
    if (next === here) return
    before ??= here
    history.replaceState(null, '', next)
  } else {
    const from = before ?? here
    before = undefined
    if (next === from && next === here) return
    history.replaceState(null, '', from)
    if (next !== from) history.pushState(null, '', next)
  }
  place.value = readPlace(next)
}

/** Changes what Back is not to undo: the language, the theme. */
export function amendQuery(changes: Changes): void {
  const { path, query } = place.peek()
  const next = showPlace(path, { ...query, ...changes })
  history.replaceState(null, '', next)
  place.value = readPlace(next)
}

export function go(path: string, query: Changes = {}): void {
  location.hash = showPlace(path, query)
}

export function startRouter(): void {
  const read = () => {
    before = undefined
    place.value = readPlace(location.hash)
  }
  addEventListener('hashchange', read)
  addEventListener('popstate', read)
  read()
}
