/**
 * The least a kernel could take on this machine: what copying as many bytes takes, read and written in the same caches, or
 * what its arithmetic takes at the speed of the product of two matrices that are in them. Measured in turns with the
 * kernel: a slow moment of the machine is slow for all three.
 */
import { KernelBed, productWords } from './bed.js'
import type { Kernels } from './target.js'

/** The product whose speed is the limit of arithmetic. */
const size = 192

export interface Limits {
  /** Seconds of copying the bytes once. */
  copy(): number
  /** Seconds of the product. */
  product(): number
}

export const productFlops = 2 * size ** 3

/** `bytes`: of all operands and results. Both are repeated for about as long as a kernel is, out of `milliseconds` in all. */
export function limitsOf(kernels: Kernels, bytes: number, milliseconds: number): Limits {
  const columns = Math.max(1, Math.ceil(bytes / 8)) // half is read, half is written
  const bed = new KernelBed(kernels, 8 * columns + 12 * size * size + 1024)
  const [x, out] = [bed.operand(columns), bed.operand(columns)]
  const [a, b, c] = [0, 1, 2].map(() => bed.operand(size * size))
  for (const { values } of [x, out, a, b]) values.fill(1 / size)
  const copied = { out: out.offset, x: x.offset, rows: 1, columns, strideOut: columns, strideX: columns }
  const multiplied = productWords({ a, b, out: c }, { m: size, n: size, k: size })
  const times = (each: number) => Math.max(1, Math.ceil((each * milliseconds) / 100))
  return {
    copy: () => bed.time('copy', copied, times(2 ** 26 / bytes)),
    product: () => bed.time('matmul', multiplied, times(64)),
  }
}
