/**
 * Messages under way. A step has tens of thousands of them, so they are rows of three columns and not objects: a row is
 * free again once both the sender and the receiver have waited for it.
 */
import type { Message } from './prices.js'

interface Sender {
  readonly pp: number
  readonly now: Float64Array
  /** When the lane of each link is free. */
  readonly lanes: readonly Float64Array[]
}

export class Messages {
  readonly #classes: number
  /** Rows of one number for each class: when it set out, when its buffer was free again, when it had come. */
  start: Float64Array = new Float64Array(0)
  release: Float64Array = new Float64Array(0)
  end: Float64Array = new Float64Array(0)
  /** The sender of each row, and who has not waited yet. */
  readonly #senders: number[] = []
  readonly #waiting: number[] = []
  readonly #free: number[] = []

  constructor(classes: number) {
    this.#classes = classes
  }

  /** It leaves as soon as the sender is there and its lane is free, and holds the lane until it has come. */
  depart({ pp, now, lanes }: Sender, { seconds, held, link }: Message): number {
    const row = this.#free.pop() ?? this.#waiting.length * this.#classes
    if (row === this.start.length) this.#grow()
    this.#waiting[row / this.#classes] = 2
    this.#senders[row / this.#classes] = pp
    const lane = lanes[link]
    for (let k = 0; k < this.#classes; k++) {
      const start = Math.max(now[k], lane[k])
      this.start[row + k] = start
      this.release[row + k] = start + held
      this.end[row + k] = lane[k] = start + seconds
    }
    return row
  }

  senderOf(row: number): number {
    return this.#senders[row / this.#classes]
  }

  /** One of the two has waited for it: whether both have. */
  isOver(row: number): boolean {
    const over = --this.#waiting[row / this.#classes] === 0
    if (over) this.#free.push(row)
    return over
  }

  #grow(): void {
    const grown = (column: Float64Array): Float64Array => {
      const larger = new Float64Array(Math.max(64 * this.#classes, 2 * column.length))
      larger.set(column)
      return larger
    }
    this.start = grown(this.start)
    this.release = grown(this.release)
    this.end = grown(this.end)
  }
}
