/**
 * A race: contenders take turns in one run, so that a slow minute of the machine is slow for all of them. Before
 * anything is timed each contender's answer is held against the truth; one that is wrong is named and never timed.
 * Every contender measures itself, where the work is done: starting a process or sending a request is nobody's time.
 */
import { setTimeout as sleep } from 'node:timers/promises'

export interface Contender {
  readonly name: string
  /** The answer of one run: as many numbers as `Race.expected`. */
  readonly answer: () => Promise<ArrayLike<number>>
  /** One run, in seconds. */
  readonly time: () => Promise<number>
}

export interface Race {
  readonly title: string
  readonly expected: ArrayLike<number>
  /** Largest difference allowed, as a share of the largest expected number. */
  readonly tolerance: number
  readonly contenders: readonly Contender[]
}

export interface Pace {
  readonly rounds: number
  /** Rounds that are run and forgotten: caches, pages, compilers. */
  readonly warmups?: number
  /** Pause between turns, in milliseconds: lets threads that spin at the end of a run fall asleep. */
  readonly pause?: number
}

export type Entry =
  | { readonly name: string; readonly times: readonly number[]; readonly best: number; readonly median: number }
  | { readonly name: string; readonly wrong: string }

export interface Result {
  readonly title: string
  readonly entries: readonly Entry[]
  /** What else was seen. */
  readonly notes?: readonly string[]
}

export async function run(race: Race, { rounds, warmups = 1, pause = 0 }: Pace): Promise<Result> {
  const wrong = new Map<string, string>()
  for (const { name, answer } of race.contenders) {
    const found = mistake(await answer(), race)
    if (found !== undefined) wrong.set(name, found)
  }
  const racing = race.contenders.filter(({ name }) => !wrong.has(name))
  const times = new Map<string, number[]>(racing.map(({ name }) => [name, []]))
  for (let round = -warmups; round < rounds; round++)
    // Each round another contender goes first: the first after a pause may find a faster clock.
    for (const { name, time } of rotated(racing, round + warmups)) {
      if (pause > 0) await sleep(pause)
      const seconds = await time()
      if (round >= 0) times.get(name)!.push(seconds)
    }
  return {
    title: race.title,
    entries: race.contenders.map(({ name }) =>
      wrong.has(name) ? { name, wrong: wrong.get(name)! } : { name, ...statistics(times.get(name)!) },
    ),
  }
}

const rotated = <T>(items: readonly T[], by: number): T[] => items.map((_, i) => items[(i + by) % items.length])

function mistake(answer: ArrayLike<number>, { expected, tolerance }: Race): string | undefined {
  if (answer.length !== expected.length) return `${answer.length} numbers instead of ${expected.length}`
  let scale = 0
  for (let i = 0; i < expected.length; i++) scale = Math.max(scale, Math.abs(expected[i]))
  for (let i = 0; i < expected.length; i++)
    // Not `>`: a NaN is wrong too.
    if (!(Math.abs(answer[i] - expected[i]) <= tolerance * scale))
      return `number ${i} is ${answer[i]} instead of ${expected[i]}`
  return undefined
}

export function statistics(times: readonly number[]): { times: readonly number[]; best: number; median: number } {
  return { times, best: Math.min(...times), median: median(times) }
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

export const geometricMean = (values: readonly number[]): number =>
  Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length)

export type Measure = 'best' | 'median'

/** How many times as fast as `peer` is `name`; undefined where one of them was not timed. */
export function speedup(result: Result, name: string, peer: string, by: Measure = 'best'): number | undefined {
  const [mine, theirs] = [name, peer].map(wanted => result.entries.find(entry => entry.name === wanted))
  return mine && theirs && 'best' in mine && 'best' in theirs ? theirs[by] / mine[by] : undefined
}
