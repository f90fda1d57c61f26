/**
 * Words with gaps, as data: `rank {rank} has other bits`. Of each family of things that are said there is one table in English; pages have
 * the same table in a language of their own, whose type is made from the first. A phrase says what is so, and what to do about it.
 */
import { either } from './text.js'

export type Phrase = readonly [message: string, advice?: string]
/** A table of message templates by code. */
export type Phrases = Readonly<Record<string, Phrase>>

/** A message template with its values, so that a page can show it in another language. */
export interface Spoken {
  readonly phrase: string
  readonly values: Readonly<Record<string, Gap>>
}

/** What a table of functions says: `search` has such. */
interface Sentence {
  readonly code: string
  readonly values: object
}

type Word = string | number

/** Of what is said, only what to do about it. */
interface Advice {
  readonly advice: Spoken
}

/**
 * The value of a template parameter. A list means one of these, unless it specifies how it is joined. Nested messages
 * are translated too.
 */
export type Gap =
  | Word
  | readonly Word[]
  | { readonly joint: Joint; readonly of: readonly (Word | Spoken)[] }
  | Spoken
  | Advice
  | Sentence

type Joint = 'or' | 'and' | ',' | ';' | '\n'

type GapsIn<Text> = Text extends `${string}{${infer Name}}${infer Rest}` ? Name | GapsIn<Rest> : never

/** The values of a phrase: nothing where it has no gaps. */
export type Filling<P extends Phrase> = [GapsIn<P[number]>] extends [never]
  ? []
  : [values: Readonly<Record<GapsIn<P[number]>, Gap>>]

/** A phrase of a table with its values, which are what its gaps ask for. */
export const spoken = (phrase: string, [values = {}]: readonly unknown[]): Spoken => ({
  ...{ phrase, values: values as Spoken['values'] }, // as `Filling` has it
})

/** A translation of a table of message templates: a missing template is a type error. */
export type Translated<Table extends Phrases> = {
  readonly [Key in keyof Table]: Table[Key] extends readonly [string, string]
    ? readonly [string, string]
    : readonly [string]
}

/** How a language says things. */
export interface Tongue {
  readonly phrases: Phrases
  readonly list: (items: readonly Word[], joint: Joint) => string
  readonly sentence: (said: Sentence) => string
}

/** Both parts of what is said, with their gaps filled; what nobody gave a value for is left out. */
export function speak({ phrase, values }: Spoken, tongue: Tongue): readonly [message: string, advice: string] {
  const [message, advice] = tongue.phrases[phrase] ?? ['']
  const fill = (text = '') => text.replace(/\{(\w+)\}/g, (_, name: string) => sayGap(values[name] ?? '', tongue))
  return [fill(message), fill(advice)]
}

function sayGap(gap: Gap, tongue: Tongue): string {
  if (typeof gap !== 'object') return String(gap)
  if ('phrase' in gap) return speak(gap, tongue)[0]
  if ('advice' in gap) return speak(gap.advice, tongue)[1]
  if ('code' in gap) return tongue.sentence(gap)
  const { of, joint } = 'of' in gap ? gap : { of: gap, joint: 'or' as const }
  return tongue.list(
    of.map(item => sayGap(item, tongue)),
    joint,
  )
}

/** English, with the phrases of a family. */
export const english = (phrases: Phrases, sentence: Tongue['sentence'] = ({ code }) => code): Tongue => ({
  ...{ phrases, sentence },
  list: (items, joint) =>
    joint === 'or' || joint === 'and' ? either(items, joint) : items.join(joint === '\n' ? joint : `${joint} `),
})
