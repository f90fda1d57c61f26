/** What a step reads, where a file counts the sequences of a microbatch and how many of them a rank adds up. */
import type { Reading } from './reading.js'

/** Keys of a file, by what they say. */
export interface TokenKeys {
  readonly seq: string
  readonly micro: string
  readonly accumulation: string
  readonly steps: string
  readonly seed: string
}

/** Sequences, steps and the seed; dp is known already. */
export function readTokens(r: Reading, keys: TokenKeys): void {
  const seq = r.whole(keys.seq, 1)
  if (seq === undefined) r.missing('training.seq', `${keys.seq} is not in the file`)
  else r.carry(keys.seq, 'training.seq', seq)
  const accumulation = r.whole(keys.accumulation, 1) ?? 1
  const dp = Number(r.field('plan.dp') ?? 1)
  deriveBatch(r, keys.micro, [
    [lastOf(keys.micro), r.whole(keys.micro, 1) ?? 1],
    [lastOf(keys.accumulation), accumulation],
    ['dp', dp],
  ])
  r.carry(keys.accumulation, 'plan.microbatches', accumulation)
  const steps = r.whole(keys.steps, 1)
  if (steps !== undefined) r.carry(keys.steps, 'training.steps', steps)
  const seed = r.whole(keys.seed)
  if (seed !== undefined) r.carry(keys.seed, 'training.seed', seed)
}

/** The batch of a step as the product of numbers that have names. */
export function deriveBatch(r: Reading, path: string, factors: readonly (readonly [name: string, of: number])[]): void {
  const batch = factors.reduce((product, [, of]) => product * of, 1)
  const words = factors.map(([name, of]) => `${name} ${of}`)
  r.derive(path, 'training.globalBatch', batch, `${words.join(' x ')} = ${batch}`)
}

const lastOf = (path: string): string => path.slice(path.lastIndexOf('.') + 1)
