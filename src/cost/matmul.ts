/**
 * How fast a product of matrices is. A product is cut in tiles, dealt out to the device's units in waves, and a last wave
 * that is not full costs a whole one; a short k leaves the pipeline of a tile half empty. Libraries have several sizes
 * of tile and cut k where tiles are few: the best of those is taken. Of a product with few rows, columns or terms there are kernels
 * without tiles, which wait for its bytes. Where products were measured, the curve is bent through them.
 */
import { precisionFacts } from '../base/index.js'
import type { Device, MatmulPoint } from '../cluster/index.js'
import type { Kernel } from './kernel.js'
import { apart, bend } from './measured.js'
import { peakOf } from './peak.js'

type Matmul = Extract<Kernel, { kind: 'matmul' }>

export function matmulSeconds(kernel: Matmul, device: Device): number {
  const points = device.curves.matmul.measured.filter(p => p.precision === kernel.precision)
  const modelled = modelledSeconds(kernel, device)
  return points.length === 0 ? modelled : modelled * bentBy(kernel, points, device)
}

/** Tiles a library has, against the largest, and what is left of the rate: a small tile loads more for each product. */
const tiles = [
  { rows: 1, columns: 1, rate: 1 },
  { rows: 1, columns: 0.5, rate: 0.96 },
  { rows: 0.5, columns: 0.5, rate: 0.88 },
] as const

/** A piece of k shorter than this is not cut further. */
const shortestCut = 1024

/** As a matrix times a few vectors, or a sum of a few outer products: every unit has a share of the long sides, whatever the short one. */
const fewVectors = 16

/** Multiplied and added one by one, as numbers of f32 are; what is fetched for that is priced apart. */
function thinSeconds({ m, n, k, batch }: Matmul, device: Device): number {
  if (Math.min(m, n, k) > fewVectors) return Number.POSITIVE_INFINITY
  const { efficiency } = device.curves.matmul
  return (2 * batch * m * n * k) / (peakOf(device, 'f32') * (efficiency.f32 ?? efficiency.bf16 ?? 1))
}

function modelledSeconds(kernel: Matmul, device: Device): number {
  const { m, n, k, batch, precision } = kernel
  const { tile, units, halfK, efficiency, unaligned = 1, packing = [0, 0] } = device.curves.matmul
  const reached = (efficiency[precision] ?? efficiency.bf16 ?? 1) * (isAligned({ n, k, precision }) ? 1 : unaligned)
  const rate = (peakOf(device, precision) * reached) / units
  let best = thinSeconds(kernel, device)
  for (const { rows, columns, rate: share } of tiles) {
    const [tall, wide] = [tile[0] * rows, tile[1] * columns]
    const count = Math.ceil(m / tall) * Math.ceil(n / wide) * batch
    for (let cuts = 1; cuts === 1 || k / cuts >= shortestCut; cuts *= 2) {
      const waves = Math.ceil((count * cuts) / units)
      const depth = k / cuts + halfK
      best = Math.min(best, (waves * 2 * tall * wide * depth) / (rate * share))
      if (count * cuts > 2 * units) break
    }
  }
  const packed = 2 * batch * k * (packing[0] * n + packing[1] * m)
  return best + packed / (rate * units)
}

/** Whether the rows of the operands and of the result begin where the widest loads want them. */
export const isAligned = ({ n, k, precision }: Pick<Matmul, 'n' | 'k' | 'precision'>): boolean =>
  (n * precisionFacts[precision].bytes) % 16 === 0 && (k * precisionFacts[precision].bytes) % 16 === 0

/** Measured over modelled time of the products nearest in shape. */
const bentBy = (kernel: Matmul, points: readonly MatmulPoint[], device: Device): number =>
  bend(
    points.map(({ m, n, k, precision, seconds }) => {
      const at: Matmul = { kind: 'matmul', m, n, k, batch: 1, precision, resultBytes: precisionFacts[precision].bytes }
      return {
        distance:
          apart(kernel.m, m) +
          apart(kernel.n, n) +
          apart(kernel.k, k) +
          apart(kernel.batch, 1) +
          // 4095 is near to 4096 and takes five times as long.
          (isAligned(kernel) === isAligned(at) ? 0 : 10),
        ratio: seconds / modelledSeconds(at, device),
      }
    }),
  )
