/** A binary heap: `pop` gives what `compare` puts first. */
export class Queue<T> {
  readonly #items: T[] = []
  readonly #compare: (a: T, b: T) => number

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare
  }

  push(item: T): void {
    const items = this.#items
    let at = items.push(item) - 1
    for (let up = (at - 1) >> 1; at > 0 && this.#compare(item, items[up]) < 0; up = (at - 1) >> 1) {
      items[at] = items[up]
      at = up
    }
    items[at] = item
  }

  pop(): T | undefined {
    const items = this.#items
    const first = items[0]
    const last = items.pop()
    if (items.length === 0 || last === undefined) return first
    let at = 0
    for (let down = 1; down < items.length; down = 2 * at + 1) {
      if (down + 1 < items.length && this.#compare(items[down + 1], items[down]) < 0) down++
      if (this.#compare(last, items[down]) <= 0) break
      items[at] = items[down]
      at = down
    }
    items[at] = last
    return first
  }
}
