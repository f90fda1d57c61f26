/** A command of the terminal that says the same, to be copied. */
import { useState } from 'preact/hooks'
import { defineText } from '../base/language.js'

const text = defineText(
  { same: 'The same in a terminal', copy: 'Copy', copied: 'Copied' },
  { same: '在终端里做同样的事', copy: '复制', copied: '已复制' },
)

export function Command({ line }: { readonly line: string }) {
  const words = text()
  return (
    <div class="command">
      <small>{words.same}</small>
      <pre>
        <code>{line}</code>
      </pre>
      <Copy value={line} />
    </div>
  )
}

export function Copy({ value, label }: { readonly value: string; readonly label?: string }) {
  const [copied, set] = useState(false)
  const words = text()
  const copy = async () => {
    await navigator.clipboard.writeText(value)
    set(true)
    setTimeout(() => set(false), 1500)
  }
  return (
    <button type="button" class="quiet" onClick={() => void copy()}>
      {copied ? words.copied : (label ?? words.copy)}
    </button>
  )
}
