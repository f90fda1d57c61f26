/** Numbers of ranks on a command line. */

/** `4,6` are wanted each; of `4..8` those that there are plans for. */
export interface Ranks {
  readonly numbers: readonly number[]
  readonly each: boolean
}

/** undefined: cannot be read. */
export function parseRanks(text: string): Ranks | undefined {
  const range = /^(\d+)\.\.(\d+)$/.exec(text)
  const [first, last] = range ? [Number(range[1]), Number(range[2])] : [0, 0]
  if (range)
    return first > 0 && last >= first && last <= mostRanks ? { numbers: between(first, last), each: false } : undefined
  const numbers = text.split(',').map(Number)
  return numbers.every(n => Number.isSafeInteger(n) && n > 0) ? { numbers, each: true } : undefined
}

const mostRanks = 2 ** 20
const between = (first: number, last: number): number[] => Array.from({ length: last - first + 1 }, (_, i) => first + i)
