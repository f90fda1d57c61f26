/** Numbers that fly: a copy of each source cell goes to each cell it became part of. Whoever wants less motion sees the ends only. */
import type { Operation } from '../../../work/collectives.js'

/** A number of a rank. */
export interface Cell {
  readonly rank: number
  readonly at: number
}

export interface Flight {
  readonly from: Cell
  readonly to: Cell
}

type Rule = (n: number, root: number) => readonly Flight[]

const each = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const flight = (from: number, at: number, to: number, toAt: number): Flight => ({
  from: { rank: from, at },
  to: { rank: to, at: toAt },
})

/** Who hands what to whom, as each operation is defined. */
const rules: Readonly<Record<Operation, Rule>> = {
  broadcast: (n, root) => each(n).flatMap(to => each(n).map(at => flight(root, at, to, at))),
  scatter: (n, root) => each(n).map(to => flight(root, to, to, 0)),
  gather: (n, root) => each(n).map(from => flight(from, 0, root, from)),
  reduce: (n, root) => each(n).flatMap(from => each(n).map(at => flight(from, at, root, at))),
  'all-gather': n => each(n).flatMap(from => each(n).map(to => flight(from, 0, to, from))),
  'reduce-scatter': n => each(n).flatMap(from => each(n).map(to => flight(from, to, to, 0))),
  'all-reduce': n => each(n).flatMap(from => each(n).flatMap(to => each(n).map(at => flight(from, at, to, at)))),
  'all-to-all': n => each(n).flatMap(from => each(n).map(to => flight(from, to, to, from))),
  'send-recv': (n, root) => each(n).map(at => flight(root, at, (root + 1) % n, at)),
}

export const flightsOf = (op: Operation, n: number, root: number): readonly Flight[] => rules[op](n, root)

const keyOf = ({ rank, at }: Cell): string => `${rank}.${at}`

/** Lets copies fly inside `stage`, whose cells say where they are by `data-before` and `data-after`; done when all have landed. */
export async function fly(stage: HTMLElement, flights: readonly Flight[]): Promise<void> {
  if (matchMedia('(prefers-reduced-motion: reduce)').matches) return
  const origin = stage.getBoundingClientRect()
  const find = (side: string, cell: Cell) => stage.querySelector<HTMLElement>(`[data-${side}="${keyOf(cell)}"]`)
  const landings = flights.flatMap(({ from, to }, n) => {
    const [start, end] = [find('before', from), find('after', to)]
    if (!start || !end) return []
    return [launch(stage, [start, end], { origin, delay: 25 * (n % 12) })]
  })
  await Promise.all(landings)
}

interface LaunchOptions {
  readonly origin: DOMRect
  readonly delay: number
}

async function launch(stage: HTMLElement, [start, end]: readonly [HTMLElement, HTMLElement], options: LaunchOptions) {
  const { origin, delay } = options
  const [a, b] = [start.getBoundingClientRect(), end.getBoundingClientRect()]
  const copy = document.createElement('span')
  copy.className = 'flyer'
  copy.ariaHidden = 'true'
  copy.textContent = start instanceof HTMLInputElement ? start.value : start.textContent
  const place = (box: DOMRect) => `translate(${box.left - origin.left}px, ${box.top - origin.top}px)`
  copy.style.width = `${a.width}px`
  stage.append(copy)
  try {
    const keyframes = [{ transform: place(a) }, { transform: place(b), opacity: 0.9 }]
    await copy.animate(keyframes, { duration: 600, delay, easing: 'ease-in-out', fill: 'both' }).finished
  } finally {
    copy.remove()
  }
}

export { keyOf }
