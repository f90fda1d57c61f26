/** Laws that a text breaks: each with its name, what it says, and a button that leads to the line. */
import { defineText } from '../base/language.js'
import type { Broken } from '../work/program/index.js'

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
      {broken.slice(0, most).map(({ law, title, message, line }) => (
        <li key={`${law} ${line} ${message}`}>
          {law && <strong>{law}</strong>} <span lang="en">{`${title ? `${title}: ` : ''}${message}`}</span>{' '}
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

/** Puts the cursor there, with the line selected. */
export function selectLine(area: HTMLTextAreaElement, line: number): void {
  const lines = area.value.split('\n')
  const start = lines.slice(0, line - 1).reduce((sum, { length }) => sum + length + 1, 0)
  area.focus()
  area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0))
}
