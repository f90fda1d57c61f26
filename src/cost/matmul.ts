/**
 * How fast a product of matrices is. A product is cut in tiles, dealt out to the device's units in waves, and a last wave
 * that is not full costs a whole one; a short k leaves the pipeline of a tile half empty. Libraries have several sizes
 * of tile and cut k where tiles are few: the best of those is taken. Where products were measured, the curve is bent
 * through them.
 */
import type { Device, MatmulPoint } from '../cluster/index.js'
import type { Kernel } from './kernel.js'
import { bytesOf, peakOf } from './price.js'

type Matmul = Extract<Kernel, { kind: 'matmul' }>

export function matmulSeconds(kernel: Matmul, device: Device): number {
  const points = device.curves.matmul.measured.filter(p => p.precision === kernel.precision)
  const modelled = modelledSeconds(kernel, device)
  return points.length === 0 ? modelled : modelled * bend(kernel, points, device)
}

/** Tiles a library has, against the largest, and what is left of the rate: a small tile loads more for each product. */
const tiles = [
  { rows: 1, columns: 1, rate: 1 },
  { rows: 1, columns: 0.5, rate: 0.92 },
  { rows: 0.5, columns: 0.5, rate: 0.8 },
] as const

/** A piece of k shorter than this is not cut further. */
const shortestCut = 1024

function modelledSeconds({ m, n, k, batch, precision }: Matmul, device: Device): number {
  const { tile, units, halfK, efficiency } = device.curves.matmul
  const rate = (peakOf(device, precision) * (efficiency[precision] ?? efficiency.bf16 ?? 1)) / units
  let best = Number.POSITIVE_INFINITY
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
  return best
}

/** Measured over modelled time, weighed by nearness: exact at a measured point, an average far from all of them. */
function bend(kernel: Matmul, points: readonly MatmulPoint[], device: Device): number {
  let sum = 0
  let weights = 0
  for (const point of points) {
    const at: Matmul = { ...point, kind: 'matmul', batch: 1, resultBytes: bytesOf[point.precision] }
    const ratio = Math.log(point.seconds / modelledSeconds(at, device))
    const distance = apart(kernel.m, point.m) + apart(kernel.n, point.n) + apart(kernel.k, point.k)
    if (distance === 0 && kernel.batch === 1) return Math.exp(ratio)
    const weight = 1 / (1e-6 + distance)
    sum += weight * ratio
    weights += weight
  }
  return Math.exp(sum / weights)
}

const apart = (a: number, b: number): number => Math.log(a / b) ** 2
