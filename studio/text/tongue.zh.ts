/** How Chinese fills the gaps of phrases. The core's `speak` stays in workers: pages import nothing of it but types. */
import type { Gap, Phrases, Sentence, Spoken } from 'lockstep'

const joints = { or: ' 或 ', and: ' 和 ', ',': '、', ';': '；', '\n': '\n' } as const

const listed = (items: readonly string[], joint: keyof typeof joints): string =>
  joint === ';' || joint === '\n' || items.length < 2
    ? items.join(joints[joint])
    : `${items.slice(0, -1).join('、')}${joints[joint]}${items.at(-1)}`

type Say = (sentence: Sentence) => string

/** What is so, and what to do about it; empty where the phrase is not known, or says nothing. */
export function speakZh({ phrase, values }: Spoken, phrases: Phrases, sentence?: Say): readonly [string, string] {
  const show = (gap: Gap): string => {
    if (typeof gap !== 'object') return String(gap)
    if ('phrase' in gap) return speakZh(gap, phrases, sentence)[0]
    if ('advice' in gap) return speakZh(gap.advice, phrases, sentence)[1]
    if ('code' in gap) return sentence?.(gap as Sentence) ?? '' // the only ones that stand in gaps
    const { of, joint } = 'of' in gap ? gap : { of: gap, joint: 'or' as const }
    return listed(of.map(show), joint)
  }
  const fill = (text = '') => text.replace(/\{(\w+)\}/g, (_, name: string) => show(values[name] ?? ''))
  const [message, advice] = Object.hasOwn(phrases, phrase) ? phrases[phrase]! : ['']
  return [fill(message), fill(advice)]
}
