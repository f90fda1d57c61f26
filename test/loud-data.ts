/** Data of which some steps are so loud that their gradient norms are spikes. */
import { batchAt, type Dataset } from '../src/data/index.js'
import type { Training } from '../src/plan/index.js'

/** What these steps of a run read is 32 times as large. */
export function louder(dataset: Dataset, training: Training, steps: readonly number[]): Dataset {
  const { train } = dataset
  const loud = new Set<number>()
  const noted = { ...train, write: (_: string, sample: number) => void loud.add(sample) }
  for (const step of steps) batchAt(noted, training, step)('x')
  const write: typeof train.write = (input, sample, into) => {
    train.write(input, sample, into)
    if (loud.has(sample)) for (let i = 0; i < into.length; i++) into[i] *= 32
  }
  return { ...dataset, train: { ...train, write } }
}
