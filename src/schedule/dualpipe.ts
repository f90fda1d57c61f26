/**
 * DualPipe (DeepSeek-V3, 2024) and DualPipeV, its cut in half: forwards and backwards of different microbatches run
 * as overlapping pairs, so that the communication of one hides behind the computation of the other.
 *
 * DualPipeV runs on a V. DualPipe feeds microbatches from both ends at once: rank r and its mirror p-1-r hold the
 * same two stages, and each of them sees what a rank of a V of half the size would see, except that the second
 * chunk's microbatches come from the other end. So one row serves both.
 *
 * The eight phases want m >= 2p on a V. For fewer microbatches the row is made for 2p, and the tasks of microbatches
 * that do not exist are left out: nothing depends on a task of another microbatch, so what remains is still in order.
 * So any m will do; and any p, since the middle rank of an odd number meets both directions at one stage.
 */
import { type Cells, type RowByRow, RowWriter } from './numbered.js'
import { vStage } from './place.js'
import type { Counts, Task, TaskKind } from './task.js'

/** Task of chunk 0 or 1 as the row meets it; the caller knows which stage and microbatch that is. */
type Visit = Pick<Task, 'kind' | 'microbatch'> & { readonly chunk: 0 | 1 }
type Cell = readonly [Visit, Visit?]

/** A row being written; each chunk's tasks of one kind take the microbatches in order. */
class VisitRow {
  readonly cells: Cell[] = []
  /** By chunk. */
  readonly #forwards = [0, 0]
  readonly #inputs = [0, 0]
  readonly #weights = [0, 0]

  alone(kind: TaskKind, chunk: 0 | 1): void {
    this.cells.push([this.#visit(kind, chunk)])
  }

  pair(forward: 0 | 1, backward: 0 | 1): void {
    this.cells.push([this.#visit('F', forward), this.#visit('B', backward)])
  }

  #visit(kind: TaskKind, chunk: 0 | 1): Visit {
    // A whole backward is both halves: the weight gradients done later must not name it again.
    if (kind === 'B') this.#weights[chunk]++
    const counts = kind === 'F' ? this.#forwards : kind === 'W' ? this.#weights : this.#inputs
    return { kind, chunk, microbatch: counts[chunk]++ }
  }
}

const times = (n: number, body: (i: number) => void): void => {
  for (let i = 0; i < n; i++) body(i)
}

/** One rank's row on a V of `ranks`, for microbatches >= 2 * ranks. */
function visits(ranks: number, rank: number, microbatches: number): Cell[] {
  const row = new VisitRow()
  const [behind, ahead] = [ranks - 1 - rank, rank + 1]
  const waiting: (0 | 1)[] = []

  times(2 * behind, () => row.alone('F', 0))
  times(ahead, () => {
    row.alone('F', 0)
    row.alone('F', 1)
  })
  times(behind, () => {
    row.alone('I', 1)
    row.alone('W', 1)
    row.alone('F', 1)
  })
  times(microbatches - 2 * ranks + ahead, i => {
    // At the turn of the V the first backward needs the forward just before it: they cannot overlap.
    if (i === 0 && behind === 0) {
      row.alone('F', 0)
      row.alone('B', 1)
    } else row.pair(0, 1)
    row.pair(1, 0)
  })
  times(behind, () => {
    row.alone('B', 1)
    row.pair(1, 0)
  })
  times(2 * ahead, i => {
    const chunk = i % 2 === 0 ? 1 : 0
    const split = i >= ahead
    row.alone(split ? 'I' : 'B', chunk)
    if (split) waiting.push(chunk)
  })
  times(behind, () => {
    row.alone('W', waiting.shift() ?? 0)
    row.alone('I', 0)
    waiting.push(0)
  })
  for (const chunk of waiting) row.alone('W', chunk)
  return row.cells
}

/** Of each chunk of the first rank: microbatches that it has begun before its first backward. */
export const leadOfDualPipeV = ({ ranks, microbatches }: Counts): number[] => [Math.min(2 * ranks - 1, microbatches), 1]

/** The same of what goes down: as on a V of half the size. */
export const leadOfDualPipe = ({ ranks, microbatches }: Counts): number[] => [
  Math.min(2 * Math.ceil(ranks / 2) - 1, Math.ceil(microbatches / 2)),
]

type Place = Pick<Task, 'stage' | 'microbatch'>

/** Only what exists: a pair that lost a part is a task alone. */
function rowOf(cells: Cells, visited: readonly Cell[], placeOf: (visit: Visit) => Place | undefined): number[] {
  const writer = new RowWriter(cells)
  const write = ({ kind }: Visit, { stage, microbatch }: Place) => writer.task(kind, stage, microbatch)
  for (const [one, other] of visited) {
    const first = placeOf(one)
    const second = other && placeOf(other)
    if (first) write(one, first)
    if (first && second) writer.pairs()
    if (other && second) write(other, second)
  }
  return writer.row
}

export function dualPipeV({ ranks, microbatches }: Counts): RowByRow {
  const cells = { stages: 2 * ranks, microbatches }
  const row = (rank: number) =>
    rowOf(cells, visits(ranks, rank, Math.max(microbatches, 2 * ranks)), ({ chunk, microbatch }) =>
      microbatch < microbatches ? { stage: vStage(ranks, rank, chunk), microbatch } : undefined,
    )
  return { ...cells, row }
}

/** The first half of the microbatches goes down the ranks, the rest comes up. */
export function dualPipe({ ranks, microbatches }: Counts): RowByRow {
  const cells = { stages: ranks, microbatches }
  const half = Math.ceil(ranks / 2)
  const down = Math.ceil(microbatches / 2)
  const row = (rank: number) => {
    const mirrored = rank >= half
    const visited = visits(half, mirrored ? ranks - 1 - rank : rank, Math.max(down, 2 * half))
    return rowOf(cells, visited, ({ chunk, microbatch: i }) => {
      const goesDown = (chunk === 0) !== mirrored
      if (i >= (goesDown ? down : microbatches - down)) return undefined
      return goesDown ? { stage: rank, microbatch: i } : { stage: ranks - 1 - rank, microbatch: down + i }
    })
  }
  return { ...cells, row }
}
