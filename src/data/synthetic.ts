/**
 * Tasks that a small model learns in few steps, by counter: a sample depends on the seed and its number alone.
 * Tokens count upwards by a stride that each sequence chooses: the first label cannot be known and is not counted, the
 * others follow from what was seen. Vectors are to be turned by one place and halved.
 */
import { normal, uniform } from '../base/index.js'
import type { Samples, Values } from './samples.js'

const strides = 3

export function progressions(shape: { seq: number; vocab: number }, seed: number): Samples {
  const { seq, vocab } = shape
  const draw = uniform({ seed, name: 'progressions' })
  const write = (input: string, sample: number, into: Values) => {
    const start = Math.floor(draw(2 * sample) * vocab)
    const stride = 1 + Math.floor(draw(2 * sample + 1) * strides)
    const ahead = input === 'labels' ? 1 : 0
    for (let i = 0; i < seq; i++) into[i] = (start + (i + ahead) * stride) % vocab
    if (ahead > 0) into[0] = ignored
  }
  return { count: many, inputs: tokenInputs(seq), write }
}

export function rotations(shape: { seq: number; embed: number }, seed: number): Samples {
  const { seq, embed } = shape
  const size = seq * embed
  const noise = normal({ seed, name: 'rotations' })
  const write = (input: string, sample: number, into: Values) => {
    for (let i = 0; i < size; i++) {
      const turned = i - (i % embed) + ((i + 1) % embed)
      into[i] = input === 'target' ? noise(sample * size + turned) / 2 : noise(sample * size + i)
    }
  }
  const input = { dtype: 'f32', size, blank: () => 0 } as const
  return { count: many, inputs: { x: input, target: input }, write }
}

/** Labels that are not counted. */
export const ignored = -100

export const tokenInputs = (seq: number): Samples['inputs'] => ({
  tokens: { dtype: 'i32', size: seq, blank: () => 0 },
  labels: { dtype: 'i32', size: seq, blank: () => ignored },
})

const many = 2 ** 30

/** Samples that the others never show: held out by number. */
export const beyond = (samples: Samples): Samples => ({
  ...samples,
  write: (input, sample, into) => samples.write(input, sample + samples.count, into),
})
