/** What is still to be looked at, least first; of equals what was added first. A heap. */
export class Agenda<T extends { readonly least: number }> {
  readonly #items: T[] = []
  readonly #added: number[] = []
  #count = 0

  /** So many turns, one after the other, for items that are to be added later: the first of them. */
  take(turns: number): number {
    const first = this.#count
    this.#count += turns
    return first
  }

  add(item: T, added: number = this.take(1)): void {
    let at = this.#items.length
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (this.#isBefore(parent, item.least, added)) break
      this.#set(at, this.#items[parent], this.#added[parent])
      at = parent
    }
    this.#set(at, item, added)
  }

  /** Undefined: nothing is left. */
  next(): T | undefined {
    const [first] = this.#items
    const [item, added] = [this.#items.pop(), this.#added.pop()]
    if (item === undefined || added === undefined || this.#items.length === 0) return first
    let at = 0
    for (;;) {
      const child = this.#lesserChild(at)
      if (child < 0 || !this.#isBefore(child, item.least, added)) break
      this.#set(at, this.#items[child], this.#added[child])
      at = child
    }
    this.#set(at, item, added)
    return first
  }

  /** Of the two below, the one that comes first; -1: there is none. */
  #lesserChild(at: number): number {
    const [left, right] = [2 * at + 1, 2 * at + 2]
    if (left >= this.#items.length) return -1
    return right < this.#items.length && this.#isBefore(right, this.#items[left].least, this.#added[left])
      ? right
      : left
  }

  #isBefore(at: number, least: number, added: number): boolean {
    const own = this.#items[at].least
    return own < least || (own === least && this.#added[at] < added)
  }

  #set(at: number, item: T, added: number): void {
    this.#items[at] = item
    this.#added[at] = added
  }
}
