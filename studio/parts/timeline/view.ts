/** Which part of the step is on the screen: pure functions from one view to the next. */
export interface View {
  readonly from: number
  readonly to: number
  /** The first row on the screen, of ranks drawn one by one; a fraction while it is dragged. */
  readonly row: number
  /** Rows on the screen. */
  readonly rows: number
}

/** A ten-millionth of a step is shorter than any span. */
const closest = 1e-7

export function clamp({ from, to, row, rows }: View, duration: number, count: number): View {
  const width = Math.min(duration, Math.max(duration * closest, to - from))
  const begin = Math.max(0, Math.min(duration - width, from))
  const high = Math.max(1, Math.min(count, rows))
  return { from: begin, to: begin + width, rows: high, row: Math.max(0, Math.min(count - high, row)) }
}

/** `factor` below 1 looks closer; what is under `at` stays there. */
export const zoomed = (view: View, factor: number, at: number): View => ({
  ...view,
  from: at - (at - view.from) * factor,
  to: at + (view.to - at) * factor,
})

/** By a part of what is on the screen. */
export const panned = (view: View, part: number): View => {
  const by = (view.to - view.from) * part
  return { ...view, from: view.from + by, to: view.to + by }
}

/** So that a span is on the screen, a third of it wide. */
export const around = (view: View, start: number, end: number): View => {
  const width = (end - start) * 3
  return { ...view, from: (start + end) / 2 - width / 2, to: (start + end) / 2 + width / 2 }
}

/** Moved as little as needed for a span to be seen. */
export function seen(view: View, start: number, end: number): View {
  const width = view.to - view.from
  if (start < view.from) return { ...view, from: start - width * 0.1, to: start + width * 0.9 }
  if (end > view.to) return { ...view, from: end - width * 0.9, to: end + width * 0.1 }
  return view
}

/** The same, with a few rows about one of them. */
export const aroundRow = (view: View, row: number): View => {
  const rows = Math.min(view.rows, 32)
  return { ...view, rows, row: row - rows / 2 }
}

/** Part of a step, in seconds. */
export type Range = Pick<View, 'from' | 'to'>

/** `0.31-0.52`, of a link; whatever else stands there is the whole step. */
export function readRange(text: string | undefined, duration: number): Range | undefined {
  const [, from, to] = (text?.match(/^(\d*\.?\d+)-(\d*\.?\d+)$/) ?? []).map(Number)
  if (from === undefined || to === undefined || from >= to || from >= duration) return
  return { from, to: Math.min(duration, to) }
}

/** Undefined: all of it. As many digits as a ten-thousandth of what is seen has. */
export function showRange({ from, to }: Range, duration: number): string | undefined {
  if (from <= 0 && to >= duration) return
  const digits = Math.max(0, Math.min(12, 4 - Math.floor(Math.log10(to - from))))
  return `${Number(from.toFixed(digits))}-${Number(to.toFixed(digits))}`
}

/** But for what is rounded in a link. */
export const isSame = (a: Range, b: Range): boolean =>
  Math.abs(a.from - b.from) + Math.abs(a.to - b.to) < (b.to - b.from) / 1000

/** Whether less is seen than all there is. */
export const isCloser = (view: View, whole: View): boolean => !isSame(view, whole) || view.rows < whole.rows

/** The same part of another step, which may be longer. */
export const stretched = (view: View, before: Range, now: Range): View => {
  const by = (now.to - now.from) / (before.to - before.from)
  return { ...view, from: view.from * by, to: view.to * by }
}

/** Ticks at 1, 2 or 5 times a power of ten, about `wanted` of them. */
export function ticks({ from, to }: Pick<View, 'from' | 'to'>, wanted: number): number[] {
  const rough = (to - from) / Math.max(1, wanted)
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = power * ([1, 2, 5].find(times => times * power >= rough) ?? 10)
  const first = Math.ceil(from / step)
  return Array.from({ length: Math.max(0, Math.floor(to / step) - first + 1) }, (_, i) => (first + i) * step)
}
