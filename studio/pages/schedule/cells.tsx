/** The cells of a schedule in PyTorch's notation, one row a rank: what is changed there becomes the reader's own schedule. */
import { useId, useState } from 'preact/hooks'
import { Copy } from '../../parts/command.js'
import type { ScheduleInput } from '../../work/schedule.js'
import { text } from './text.js'

interface CellsProps {
  readonly cells: string
  readonly change: (next: Partial<ScheduleInput>, pushed?: boolean) => void
}

export function Cells({ cells, change }: CellsProps) {
  const words = text()
  const id = useId()
  const [shown, show] = useState(cells)
  const [before, remember] = useState(cells)
  if (before !== cells) {
    remember(cells)
    show(cells)
  }
  const edit = (value: string) => {
    show(value)
    change({ name: 'own', cells: value }, false)
  }
  return (
    <section class="cells">
      <label for={id}>{words.cells}</label>
      <textarea
        id={id}
        rows={Math.min(16, shown.split('\n').length + 1)}
        spellcheck={false}
        value={shown}
        onInput={event => edit(event.currentTarget.value)}
        onChange={event => change({ name: 'own', cells: event.currentTarget.value })}
      />
      <small>{words.cellsNote}</small> <Copy value={shown} />
    </section>
  )
}
