/** Light or dark: the link's, else what was chosen before, else the system's. */
import { computed, effect, signal } from '@preact/signals'
import { amendQuery, place } from './router.js'
import { recall, remember } from './store.js'

export type Theme = 'light' | 'dark'

const isTheme = (word: string | undefined): word is Theme => word === 'light' || word === 'dark'
const system = matchMedia('(prefers-color-scheme: dark)')
const systemDark = signal(system.matches)

export const theme = computed<Theme>(() => {
  const asked = [place.value.query.theme, recall('theme')].find(isTheme)
  return asked ?? (systemDark.value ? 'dark' : 'light')
})

export function paint(next: Theme): void {
  remember('theme', next)
  amendQuery({ theme: next })
}

export function followTheme(): void {
  system.addEventListener('change', () => {
    systemDark.value = system.matches
  })
  effect(() => {
    document.documentElement.dataset.theme = theme.value
  })
}
