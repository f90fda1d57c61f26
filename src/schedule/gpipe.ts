/**
 * All forwards, then all backwards: GPipe (Huang et al. 2019), and breadth-first looping (Lamy-Poirier 2023) when a
 * rank holds several chunks. Every activation of the step is alive at the turn.
 * Looping walks the microbatches backwards on the way back, GPipe in the order they came.
 */
import { loopStage } from './place.js'
import type { Counts, Schedule, Task } from './task.js'

const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

export const gpipe = (counts: Counts): Schedule => allThenAll(counts, upTo(counts.microbatches))

export const loopedBfs = (counts: Counts): Schedule => allThenAll(counts, upTo(counts.microbatches).reverse())

function allThenAll({ ranks, chunks, microbatches }: Counts, wayBack: readonly number[]): Schedule {
  const pass = (kind: 'F' | 'B', rank: number, chunk: number, order: readonly number[]): Task[] =>
    order.map(microbatch => ({ kind, stage: loopStage(ranks, rank, chunk), microbatch }))
  const row = (rank: number): Task[] => [
    ...upTo(chunks).flatMap(chunk => pass('F', rank, chunk, upTo(microbatches))),
    ...upTo(chunks)
      .reverse()
      .flatMap(chunk => pass('B', rank, chunk, wayBack)),
  ]
  return { stages: ranks * chunks, microbatches, rows: upTo(ranks).map(row) }
}
