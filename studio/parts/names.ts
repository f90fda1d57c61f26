/** Names that the core gives as words of its own files, in the reader's language: levels of a cluster, lists. */
import { defineText, language } from '../base/language.js'

const levels = defineText(
  { node: 'node', rack: 'rack', fabric: 'fabric', torus: 'torus', slices: 'slices' },
  { node: '节点', rack: '机柜', fabric: '网络', torus: '环面', slices: '切片间' },
)

/** Levels that somebody's own cluster file names are called as it calls them. */
export const levelName = (name: string): string => (levels() as Readonly<Record<string, string>>)[name] ?? name

export const listed = (items: readonly string[]): string => items.join(language.value === 'zh' ? '、' : ', ')

/** `what: which`, with the colon of the language. */
export const labelled = (what: string, which: string): string =>
  `${what}${language.value === 'zh' ? '：' : ': '}${which}`
