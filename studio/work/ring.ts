/**
 * The ring that libraries bring an all-reduce about by, step by step. Every rank has its numbers in as many chunks as there are ranks.
 * For n - 1 steps each hands one chunk to the next rank, which adds it to its own: then every rank has one chunk summed. For n - 1 more
 * the summed chunks go round. The engine reads its peers' memory instead; both end with the same sums.
 */

export interface RingMove {
  readonly from: number
  readonly to: number
  readonly chunk: number
}

export interface RingState {
  /** What each rank holds: a number a chunk. */
  readonly cells: readonly (readonly number[])[]
  /** Chunks that are complete sums, by rank. */
  readonly summed: readonly (readonly boolean[])[]
  /** What has just been handed on, and whether it was added or laid down. */
  readonly moves: readonly RingMove[]
  readonly phase: 'start' | 'reduce' | 'gather'
}

/** 2(n - 1) steps behind the first state. Numbers are f32, as on the ranks. */
export function ringOf(x: readonly (readonly number[])[]): RingState[] {
  const n = x.length
  const states: RingState[] = [
    {
      cells: x.map(row => row.map(Math.fround)),
      summed: x.map(row => row.map(() => n === 1)),
      moves: [],
      phase: 'start',
    },
  ]
  for (let step = 0; step < 2 * (n - 1); step++) states.push(nextOf(states[step]!, step, n))
  return states
}

function nextOf({ cells, summed }: RingState, step: number, n: number): RingState {
  const reduces = step < n - 1
  // While sums are made rank r hands on chunk r - step; the chunk it completed last is the first it hands on after.
  const moves = Array.from({ length: n }, (_, from) => ({
    from,
    to: (from + 1) % n,
    chunk: (((reduces ? from - step : from + 1 - (step - (n - 1))) % n) + n) % n,
  }))
  const [after, whole] = [cells.map(row => [...row]), summed.map(row => [...row])]
  for (const { from, to, chunk } of moves) {
    const handed = cells[from]![chunk]!
    after[to]![chunk] = reduces ? Math.fround(cells[to]![chunk]! + handed) : handed
    whole[to]![chunk] = reduces ? step === n - 2 : summed[from]![chunk]!
  }
  return { cells: after, summed: whole, moves, phase: reduces ? 'reduce' : 'gather' }
}
