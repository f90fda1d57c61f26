/**
 * All forwards, then all backwards: GPipe (Huang et al. 2019), and breadth-first looping (Lamy-Poirier 2023) when a
 * rank holds several chunks. Every activation of the step is alive at the turn.
 * Looping walks the microbatches backwards on the way back, GPipe in the order they came.
 */
import { type RowByRow, RowWriter } from './numbered.js'
import { loopStage } from './place.js'
import type { Counts } from './task.js'

const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

export const gpipe = (counts: Counts): RowByRow => allThenAll(counts, upTo(counts.microbatches))

export const loopedBfs = (counts: Counts): RowByRow => allThenAll(counts, upTo(counts.microbatches).reverse())

function allThenAll({ ranks, chunks, microbatches }: Counts, wayBack: readonly number[]): RowByRow {
  const cells = { stages: ranks * chunks, microbatches }
  const row = (rank: number) => {
    const writer = new RowWriter(cells)
    const pass = (kind: 'F' | 'B', chunk: number, order: readonly number[]) => {
      for (const microbatch of order) writer.task(kind, loopStage(ranks, rank, chunk), microbatch)
    }
    for (let chunk = 0; chunk < chunks; chunk++) pass('F', chunk, upTo(microbatches))
    for (let chunk = chunks - 1; chunk >= 0; chunk--) pass('B', chunk, wayBack)
    return writer.row
  }
  return { ...cells, row }
}
