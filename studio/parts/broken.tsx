/** Laws that a text breaks: each with its name, what it says, and a button that leads to the line. */
import { defineText, language } from '../base/language.js'
import { lawTitlesZh, sayProgramZh } from '../text/program.zh.js'
import type { Broken } from '../work/broken.js'

const text = defineText({ line: (n: number) => `line ${n}` }, { line: (n: number) => `第 ${n} 行` })

interface BrokenLawsProps {
  readonly broken: readonly Broken[]
  readonly goTo: (line: number) => void
}

/** More are not read. */
const most = 20

export function BrokenLaws({ broken, goTo }: BrokenLawsProps) {
  const words = text()
  return (
    <ul>
      {broken.slice(0, most).map(({ line, ...one }) => (
        <li key={`${one.law} ${line} ${one.message}`}>
          {one.law && <strong>{one.law}</strong>} <Words of={one} />{' '}
          {line !== undefined && (
            <button type="button" class="quiet" onClick={() => goTo(line)}>
              {words.line(line)}
            </button>
          )}
        </li>
      ))}
    </ul>
  )
}

type Said = Pick<Broken, 'law' | 'title' | 'message' | 'said'>

/** What the law asks for. */
export const titleOf = ({ law, title }: Said): string => (language.value === 'zh' && law ? lawTitlesZh[law] : title)

/** How it is broken; what has no phrase, in English. */
export const messageOf = ({ message, said }: Said): string =>
  language.value === 'zh' && said ? sayProgramZh(said) : message

function Words({ of }: { readonly of: Said }) {
  const title = titleOf(of)
  return (
    <span>
      {title && `${title}${language.value === 'zh' ? '：' : ': '}`}
      <span lang={of.said ? undefined : 'en'}>{messageOf(of)}</span>
    </span>
  )
}

/** Puts the cursor there, with the line selected. */
export function selectLine(area: HTMLTextAreaElement, line: number): void {
  const lines = area.value.split('\n')
  const start = lines.slice(0, line - 1).reduce((sum, { length }) => sum + length + 1, 0)
  area.focus()
  area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0))
}
