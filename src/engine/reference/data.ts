/**
 * Data for verification, by counter: every number depends on the seed, the step and the place of its sample in the
 * global batch, and on nothing a plan could change. Labels are the next tokens, and samples ignore different shares
 * of theirs, so a loss that averages averages shows.
 */
import { type Dim, elementsOf, normal, uniform } from '../../base/index.js'
import { type InputShape, indices, sizeIn } from '../../geometry/index.js'

/** The whole global batch of a step and an input, row-major over the input's dims. */
export type Data = (step: number) => (name: string) => Float64Array

/** Deterministic input data of the right shapes, step by step. */
export function syntheticData(inputs: readonly InputShape[], vocab: number, seed: number): Data {
  return step => name => {
    const input = inputs.find(input => input.name === name)
    if (!input) throw new Error(`there is no input ${name}`)
    const value = drawFrom(input, { vocab, seed, step })
    const [samples, positions] = [coordinates(input.dims, true), coordinates(input.dims, false)]
    return Float64Array.from({ length: elementsOf(input.dims) }, (_, i) => value(samples[i], positions[i]))
  }
}

/** The sample of each element, or its place within the sample. */
function coordinates(dims: readonly Dim[], ofBatch: boolean): Float64Array {
  return indices(
    dims,
    dims.filter(dim => (dim.name === 'batch') === ofBatch),
  )
}

type Value = (sample: number, position: number) => number

interface Draw {
  readonly vocab: number
  readonly seed: number
  readonly step: number
}

/** Integers named `labels` are labels, those named `positions` places in documents, others tokens; the rest is normal noise. */
function drawFrom({ name, dtype, dims, every }: InputShape, { vocab, seed, step }: Draw): Value {
  const perSample = elementsOf(dims.filter(dim => dim.name !== 'batch'))
  if (dtype !== 'i32') {
    const noise = normal({ seed, name, step })
    return (sample, position) => noise(sample * perSample + position)
  }
  const draw = uniform({ seed, name: 'tokens', step })
  const token: Value = (sample, position) => Math.floor(draw(sample * (perSample + 1) + position) * vocab)
  // Choices of experts: those of one token differ, and there are at least as many experts.
  const chosen = sizeIn(dims, 'choice')
  if (chosen !== undefined)
    return (sample, position) => {
      const first = Math.floor(draw(sample * (perSample + 1) + Math.floor(position / chosen)) * chosen)
      return (first + (position % chosen)) % chosen
    }
  if (name === 'positions') return placesIn(documentsOf({ seed, step }, sizeIn(dims, 'seq') ?? 1, every))
  return name === 'labels' ? labelsOf(token, ignoring(seed, step, sizeIn(dims, 'seq') ?? 1)) : token
}

const labelsOf = (token: Value, ignored: (sample: number, position: number) => boolean): Value => {
  return (sample, position) => {
    if (ignored(sample, position)) return position % 2 === 0 ? -100 : -1
    return token(sample, position + 1)
  }
}

/** How far back the document of a token began. */
const placesIn =
  (begins: (sample: number, position: number) => boolean): Value =>
  (sample, position) => {
    let place = 0
    while (!begins(sample, position - place)) place++
    return place
  }

/** Each sample has documents of its own lengths: one in some, in others one begins nearly wherever it may. */
function documentsOf({ seed, step }: Omit<Draw, 'vocab'>, length: number, every = 1) {
  const share = uniform({ seed, name: 'documents share', step })
  const chance = uniform({ seed, name: 'documents', step })
  return (sample: number, position: number): boolean =>
    position === 0 || (position % every === 0 && chance(sample * length + position) < share(sample) ** 2)
}

/** Each sample ignores its own share of labels, from none to 7 in 10; the very first label always counts. */
function ignoring(seed: number, step: number, length: number): (sample: number, position: number) => boolean {
  const share = uniform({ seed, name: 'ignored share', step })
  const chance = uniform({ seed, name: 'ignored', step })
  return (sample, position) => sample + position > 0 && chance(sample * length + position) < 0.7 * share(sample)
}
