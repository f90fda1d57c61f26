/**
 * The memory-bound half of a layer: bytes read and written for each element of the tensor a chain of small ops works
 * on, counted from what the kernels do. Elements are of 2 bytes; masks of 1; chains in f32 are counted as such.
 */
import type { Shape } from '../shape.js'
import type { Software } from './software.js'

/** Bytes of traffic per element, forward and backward. */
export interface Traffic {
  readonly forward: number
  readonly backward: number
}

/** Which tensor a chain works on: the residual stream, queries and keys and values, the hidden layer, rows of experts, the scores. */
export type Stream = 'residual' | 'query' | 'keyValue' | 'hidden' | 'routed' | 'scores'

/** Forward: read, normalise, write. Backward: two passes, one for the input and one for the weights. */
const norm = (software: Software): Traffic =>
  software.fusedNorm ? { forward: 4, backward: 10 } : { forward: 36, backward: 76 }

/** Bias, dropout and the sum with the residual; backward also the sum of the two gradients that meet there. */
function residual(shape: Shape, software: Software): Traffic {
  const bias = shape.biases ? 2 : 0
  if (!shape.dropout) return { forward: 6, backward: 6 + bias }
  return software.fusedElementwise ? { forward: 7, backward: 11 + bias } : { forward: 15, backward: 11 + bias }
}

function activation(shape: Shape, software: Software): Traffic {
  const bias = shape.biases ? 2 : 0
  if (!shape.gated) return { forward: 4, backward: 6 + bias }
  return software.fusedElementwise ? { forward: 6, backward: 10 } : { forward: 10, backward: 18 }
}

/** Rotation of queries and keys: one pass, or halves, products and sums one by one. */
function rotation(shape: Shape, software: Software): Traffic {
  if (shape.positions !== 'rotary') return { forward: 0, backward: 0 }
  return software.fusedElementwise ? { forward: 4, backward: 4 } : { forward: 18, backward: 18 }
}

/** Megatron's kernel works on 4 matrices of scores at a time, one for each sequence and head, and on no odd ones. */
export const fusesSoftmax = ({ seq }: Shape, matrices: number, { fusedSoftmax }: Software): boolean =>
  seq <= fusedSoftmax && matrices % 4 === 0

/** Softmax with its scale and mask, and dropout, where scores go through memory. */
function softmax(shape: Shape, matrices: number, software: Software): Traffic {
  if (software.attention !== 'unfused') return { forward: 0, backward: 0 }
  const dropout = shape.dropout ? 5 : 0
  const fused = fusesSoftmax(shape, matrices, software)
  return { forward: (fused ? 4 : 29) + dropout, backward: (fused ? 6 : 30) + dropout }
}

/** Rows are put in the order of experts before they leave and when they come, and back again. */
const permutation = ({ routing }: Software): Traffic => {
  const bytes = routing?.bytes ?? 8
  return { forward: bytes, backward: bytes }
}

/** Transposes between tokens and heads, and the sums for biases. */
const copies = (shape: Shape): Traffic => ({ forward: 4, backward: 4 + (shape.biases ? 2 : 0) })

const plus = (...all: readonly Traffic[]): Traffic => ({
  forward: all.reduce((sum, t) => sum + t.forward, 0),
  backward: all.reduce((sum, t) => sum + t.backward, 0),
})

/** Kernels written for any shape, one for each op, do not reach the rate of a copy, and casts stand between them. */
const eagerly = 1.5

const scaled = (by: number, { forward, backward }: Traffic): Traffic => ({
  forward: by * forward,
  backward: by * backward,
})

/** One layer's chains, added up for each tensor they work on; `matrices` of scores are a rank's. */
export function layerTraffic(shape: Shape, matrices: number, software: Software): Readonly<Record<Stream, Traffic>> {
  const [n, r, rope, copy] = [norm(software), residual(shape, software), rotation(shape, software), copies(shape)]
  const by = software.fusedElementwise ? 1 : eagerly
  return {
    residual: scaled(by, plus(n, n, r, r)),
    query: scaled(by, plus(rope, copy)),
    keyValue: scaled(by, plus(scaled(0.5, rope), { forward: 0, backward: copy.backward })),
    hidden: scaled(by, activation(shape, software)),
    routed: permutation(software),
    scores: scaled(by, softmax(shape, matrices, software)),
  }
}

/** The embedding: rows looked up, positions, dropout; backward rows added into the table's gradient. */
export function embeddingTraffic(shape: Shape): Traffic {
  const learned = shape.positions === 'learned' ? 6 : 0
  const dropout = shape.dropout ? 5 : 0
  return { forward: 4 + learned + dropout, backward: 10 + learned + dropout }
}
