/**
 * The two languages. Text stands with the page that shows it, English and Chinese side by side: `defineText(en, zh)` asks of `zh`
 * every key of `en`, with the same arguments, so a missing translation is a type error.
 */
import { computed, effect } from '@preact/signals'
import { amendQuery, place } from './router.js'
import { recall, remember } from './store.js'

export type Language = 'en' | 'zh'
export const languages: Readonly<Record<Language, string>> = { en: 'English', zh: '中文' }

const isLanguage = (word: string | undefined): word is Language => word === 'en' || word === 'zh'

/** The link's, else what was chosen before, else the browser's. */
export const language = computed<Language>(() => {
  const asked = place.value.query.lang
  if (isLanguage(asked)) return asked
  const chosen = recall('language')
  if (isLanguage(chosen)) return chosen
  return navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en'
})

export function speak(next: Language): void {
  remember('language', next)
  amendQuery({ lang: next })
}

/** Words of a page: sentences, functions that make one from values, or groups of both. */
export interface Words {
  readonly [name: string]: string | readonly string[] | ((...values: never[]) => string) | Words
}

type Strings<T extends readonly string[]> = { readonly [I in keyof T]: string }

export type Translated<T> = {
  readonly [K in keyof T]: T[K] extends string
    ? string
    : T[K] extends readonly string[]
      ? Strings<T[K]>
      : T[K] extends (...values: infer V) => string
        ? (...values: V) => string
        : Translated<T[K]>
}

/** Call what it returns inside a component: the component is drawn again when the language changes. */
export function defineText<const T extends Words>(en: T, zh: Translated<T>): () => Translated<T> {
  return () => (language.value === 'zh' ? zh : (en as unknown as Translated<T>)) // the same shape, its literals widened
}

export function followLanguage(): void {
  effect(() => {
    document.documentElement.lang = language.value === 'zh' ? 'zh-CN' : 'en'
  })
}
