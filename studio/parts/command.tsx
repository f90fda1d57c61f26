/** A command of the terminal that says the same, to be copied. */
import { Fragment } from 'preact'
import { useState } from 'preact/hooks'
import { defineText } from '../base/language.js'

const text = defineText(
  {
    same: 'The same in a terminal',
    says: 'With --json it says',
    copy: 'Copy',
    copied: 'Copied',
    refused: 'The browser does not let me copy',
  },
  {
    same: '在终端里做同样的事',
    says: '加上 --json，它会给出',
    copy: '复制',
    copied: '已复制',
    refused: '浏览器不允许复制',
  },
)

/** A number of the page, and the field that has it in what the command says with --json: `parts.dp`, `stages.0.peak.gradients`. */
export interface Says {
  readonly field: string
  readonly value: number
}

export interface CommandProps {
  readonly line: string
  readonly says?: Says | undefined
}

/** Options are not broken after their hyphens. */
const whole = (line: string) =>
  line.split(/(?<=\s)(-\S*)/).map((word, n) =>
    n % 2 === 1 ? (
      <span key={n} class="option">
        {word}
      </span>
    ) : (
      word
    ),
  )

/** A name of a field may be broken where it has a dot. */
const parted = (field: string) =>
  field.split(/(?<=\.)/).map((word, n) => (
    <Fragment key={n}>
      {word}
      <wbr />
    </Fragment>
  ))

export function Command({ line, says }: CommandProps) {
  const words = text()
  return (
    <div class="command">
      <small>{words.same}</small>
      <pre>
        <code>{whole(line)}</code>
      </pre>
      <Copy value={line} />
      {says && (
        <p>
          <small>{words.says}</small>{' '}
          <code data-field={says.field} data-value={says.value}>
            {parted(says.field)}: {says.value}
          </code>
        </p>
      )}
    </div>
  )
}

export function Copy({ value, label }: { readonly value: string; readonly label?: string }) {
  const [copied, set] = useState<'copied' | 'refused'>()
  const words = text()
  const copy = async () => {
    // Pages of a host without https have no clipboard, and a reader may refuse it.
    const done = await navigator.clipboard?.writeText(value).then(
      () => true,
      () => false,
    )
    set(done ? 'copied' : 'refused')
    setTimeout(() => set(undefined), 1500)
  }
  return (
    <button type="button" class="quiet" onClick={() => void copy()}>
      {copied ? words[copied] : (label ?? words.copy)}
    </button>
  )
}
