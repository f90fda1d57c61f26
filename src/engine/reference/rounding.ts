/**
 * What is stored in bf16. A machine in f32 rounds every result to the dtype of its buffer when it is stored, once and to
 * nearest even, as hardware does that sums in f32. A machine in f64 keeps all its digits whatever the dtype, so that
 * plans can be compared exactly.
 */
import type { Cells } from '../../geometry/index.js'

const float = new Float32Array(1)
const bits = new Uint32Array(float.buffer)

/** The bf16 number nearest to an f32 one; of two equally near, the one whose last bit is 0. */
export function roundToBf16(value: number): number {
  float[0] = value
  if (Number.isNaN(float[0])) return Number.NaN
  bits[0] = (bits[0] + 0x7fff + ((bits[0] >>> 16) & 1)) & 0xffff0000
  return float[0]
}

export function roundCells(cells: Cells, from: number, to: number): void {
  for (let i = from; i < to; i++) cells[i] = roundToBf16(cells[i])
}
