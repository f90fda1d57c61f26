/** A formula whose live places hold the numbers of this page: `<Formula math={tex`…\class{live}{\text{bubble}}`} live={{ bubble: '3/11' }} />`. */
import { useLayoutEffect, useRef } from 'preact/hooks'
import { type Language, language } from '../base/language.js'
import { useScrolls } from './scrolls.js'

/** MathML that the build made, never text of a reader: tex`…`, of each language where there are words in it. */
export type Maths = string | Readonly<Record<Language, string>>

interface FormulaProps {
  readonly math: Maths
  readonly live?: Readonly<Record<string, string>>
}

export function Formula({ math: said, live = {} }: FormulaProps) {
  const math = typeof said === 'string' ? said : said[language.value]
  const place = useRef<HTMLDivElement>(null)
  const scrolls = useScrolls(place)
  useLayoutEffect(() => {
    for (const element of place.current?.querySelectorAll('.live') ?? []) {
      const name = (element as HTMLElement).dataset.name ?? element.textContent ?? ''
      ;(element as HTMLElement).dataset.name = name
      const value = live[name]
      const leaf = element.querySelector('mtext, mi, mn') ?? element
      if (value !== undefined) leaf.textContent = value
    }
  }, [math, JSON.stringify(live)])
  // The build made it from a constant.
  return <div class="formula" ref={place} {...scrolls} dangerouslySetInnerHTML={{ __html: math }} />
}
