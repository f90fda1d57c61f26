/**
 * Texts of the reader's own (a job, cells of a schedule) stand in the link, so that it can be sent. One that would make the link longer
 * than what mail and chats leave whole stays in this browser, under the same name, and the page says so.
 */
import { signal } from '@preact/signals'
import { type Changes, go, place, showPlace } from './router.js'
import { recall, remember } from './store.js'

/** Letters of a whole link. */
export const mostLetters = 2000

export type OwnName = 'yaml' | 'cells'

/** What was too long, for browsers that may store nothing too. */
const kept = signal<Readonly<Partial<Record<OwnName, string>>>>({})

/** The link's, else what is kept here. */
export const ownText = (name: OwnName): string | undefined =>
  place.value.query[name] ?? kept.value[name] ?? recall(`own.${name}`)

const lengthOf = (path: string, query: Changes): number =>
  location.href.length - location.hash.length + showPlace(path, query).length

/** The letters of the link of this page. */
export const linkLength = (): number => lengthOf(place.value.path, place.value.query)

/** What a link says of a text: the text, or nothing, where it has no room. */
export function ownQuery(name: OwnName, text: string, { path, query } = place.peek()): Changes {
  kept.value = { ...kept.peek(), [name]: text }
  remember(`own.${name}`, text)
  return { [name]: lengthOf(path, { ...query, [name]: text }) <= mostLetters ? text : undefined }
}

/** Opens a page with a job of the reader's own; `more` of the link goes along. */
export function takeJob(path: string, text: string, more: Changes = {}): void {
  const { lang, theme } = place.peek().query
  const query = { lang, theme, job: 'own', ...more } as Record<string, string> // what is undefined is left out of links
  go(path, { ...query, ...ownQuery('yaml', text, { path, query }) })
}
