/**
 * Texts of the reader's own (a job, cells of a schedule, a plan to compare with) stand in the link, so that it can be sent. One that would
 * make the link longer than what mail and chats leave whole stays in this browser, and the link has its mark: each link finds its own.
 */
import { type Changes, go, place, showPlace } from './router.js'
import { forget, recall, remember } from './store.js'

/** Letters of a whole link. */
export const mostLetters = 2000

export type OwnName = 'yaml' | 'cells' | 'a'

/** Texts that are kept here: the oldest makes room for the newest. */
const mostKept = 24

/** For browsers that may store nothing. */
const kept = new Map<string, string>()

const marked = /^~[0-9a-z]{1,11}$/

/** Whether the link has the mark of a text, and not the text. */
export const isKept = (name: OwnName): boolean => marked.test(place.value.query[name] ?? '')

/** The link's; undefined too where it stayed in another browser, or was given up for newer ones. */
export function ownText(name: OwnName): string | undefined {
  const text = place.value.query[name]
  return text !== undefined && marked.test(text) ? (kept.get(text) ?? recall(`own.${text}`)) : text
}

/** 53 bits of a text, as `cyrb53` mixes them: two texts of one reader have different ones. */
export function markOf(text: string): string {
  let [a, b] = [0xdeadbeef, 0x41c6ce57]
  for (let i = 0; i < text.length; i++) {
    const letter = text.charCodeAt(i)
    a = Math.imul(a ^ letter, 2654435761)
    b = Math.imul(b ^ letter, 1597334677)
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909)
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909)
  return `~${(4294967296 * (2097151 & b) + (a >>> 0)).toString(36)}`
}

function keep(text: string): string {
  const mark = markOf(text)
  const before = (recall('own') ?? '').split(' ').filter(one => marked.test(one) && one !== mark)
  const marks = [...before, mark]
  for (const old of marks.slice(0, -mostKept)) {
    kept.delete(old)
    forget(`own.${old}`)
  }
  kept.set(mark, text)
  remember(`own.${mark}`, text)
  remember('own', marks.slice(-mostKept).join(' '))
  return mark
}

const lengthOf = (path: string, query: Changes): number =>
  location.href.length - location.hash.length + showPlace(path, query).length

/** The letters of the link of this page. */
export const linkLength = (): number => lengthOf(place.value.path, place.value.query)

/** What a link says of a text: the text, or, where it has no room, its mark. */
export function ownQuery(name: OwnName, text: string, { path, query } = place.peek()): Changes {
  return { [name]: lengthOf(path, { ...query, [name]: text }) <= mostLetters ? text : keep(text) }
}

/** Opens a page with a job of the reader's own; `more` of the link goes along. */
export function takeJob(path: string, text: string, more: Changes = {}): void {
  const { lang, theme } = place.peek().query
  const query = { lang, theme, job: 'own', ...more } as Record<string, string> // what is undefined is left out of links
  go(path, { ...query, ...ownQuery('yaml', text, { path, query }) })
}
