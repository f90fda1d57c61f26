/**
 * A figure: a picture, a sentence made from its data, and the data as a table for whoever reads numbers or cannot see the picture.
 */
import type { ComponentChildren } from 'preact'
import { useId, useRef, useState } from 'preact/hooks'
import { defineText } from '../base/language.js'
import { useScrolls } from './scrolls.js'

const text = defineText({ table: 'as a table', picture: 'as a picture' }, { table: '看表格', picture: '看图' })

export interface Rows {
  readonly head: readonly string[]
  readonly body: readonly (readonly (string | number)[])[]
}

interface FigureProps {
  readonly title: string
  /** One sentence made from the data, never a constant. */
  readonly caption: ComponentChildren
  readonly rows: Rows
  readonly children: ComponentChildren
  /** Of an older question: the picture is paler until the new one is there. */
  readonly pending?: boolean
}

export function Figure({ title, caption, rows, children, pending = false }: FigureProps) {
  const [asTable, show] = useState(false)
  const id = useId()
  const words = text()
  return (
    <figure class="figure" aria-labelledby={id} aria-busy={pending}>
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="quiet" aria-pressed={asTable} onClick={() => show(!asTable)}>
          {asTable ? words.picture : words.table}
        </button>
      </header>
      {asTable ? <Table {...rows} label={title} /> : <Picture pending={pending}>{children}</Picture>}
      <figcaption>{caption}</figcaption>
    </figure>
  )
}

function Picture({ pending, children }: Pick<FigureProps, 'children'> & { readonly pending: boolean }) {
  const place = useRef<HTMLDivElement>(null)
  return (
    <div class={pending ? 'picture pending' : 'picture'} ref={place} {...useScrolls(place)}>
      {children}
    </div>
  )
}

/** A table that scrolls by itself where it is wider than the page. */
export function Table({ head, body, label }: Rows & { readonly label: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class="scroll" aria-label={label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {head.map(name => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {body.map((row, n) => (
            <tr key={n}>
              {row.map((cell, column) =>
                column === 0 ? (
                  <th key={column} scope="row">
                    {cell}
                  </th>
                ) : (
                  <td key={column} class={typeof cell === 'number' ? 'number' : undefined}>
                    {cell}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
