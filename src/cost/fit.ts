/**
 * Curves from measurements: the constants with which the prices of this folder come nearest to what was timed. Points
 * stay in the curve as evidence, and prices go through them; the constants speak for sizes that nobody timed.
 */
import { mean } from '../base/index.js'
import type { AttentionPoint, Curves, Device, MatmulPoint, Precision } from '../cluster/index.js'
import { digits } from '../cluster/index.js'
import { isAligned, matmulSeconds } from './matmul.js'
import { attentionSeconds, bytesOf, flopsOf } from './price.js'

const tiles: readonly [number, number][] = [
  [8, 8],
  [64, 64],
  [64, 128],
  [128, 128],
  [128, 256],
  [256, 256],
]
const halves = [0, 16, 32, 64, 128, 256]

/** Products that take less time than so many of the least say little about rates. */
const least = 30

/** The tile and the k of half efficiency with which the model's errors spread least, and then the efficiencies. */
export function fitMatmul(points: readonly MatmulPoint[], device: Device, units: number): Curves['matmul'] {
  const large = points.filter(({ seconds }) => seconds > least * device.curves.floor)
  const long = large.some(isAligned) ? large : points
  const [telling, odd] = [long.filter(isAligned), long.filter(point => !isAligned(point))]
  const precision = mostFrequent(telling)
  const shape = tiles
    .flatMap(tile => halves.map(halfK => ({ tile, halfK })))
    .map(form => ({ form, ratios: ratiosOf(telling, precision, device, { ...form, units }) }))
    .reduce((best, next) => (spread(next.ratios) < spread(best.ratios) ? next : best)).form
  const efficiency = Object.fromEntries(
    [...new Set(points.map(point => point.precision))].map(of => {
      const ratios = ratiosOf(telling, of, device, { ...shape, units })
      return [of, digits(Math.min(1, Math.exp(-mean(ratios))))]
    }),
  )
  const slower = ratiosOf(odd, precision, device, { ...shape, units })
  const even = ratiosOf(telling, precision, device, { ...shape, units })
  const unaligned = odd.length === 0 ? {} : { unaligned: digits(Math.min(1, Math.exp(mean(even) - mean(slower)))) }
  return { efficiency, ...shape, units, ...unaligned, measured: [...points] }
}

/** Log of measured over modelled time at full efficiency. */
function ratiosOf(
  points: readonly MatmulPoint[],
  precision: Precision,
  device: Device,
  form: Pick<Curves['matmul'], 'tile' | 'halfK' | 'units'>,
): number[] {
  const plain = { ...form, efficiency: { [precision]: 1 }, measured: [] }
  const ideal: Device = { ...device, curves: { ...device.curves, matmul: plain } }
  return points
    .filter(point => point.precision === precision)
    .map(({ m, n, k, seconds }) => {
      const kernel = { kind: 'matmul', m, n, k, batch: 1, precision, resultBytes: bytesOf[precision] } as const
      return Math.log(seconds / matmulSeconds(kernel, ideal))
    })
}

/** The share of the peak that the larger half of the measured passes reached. */
export function fitAttention(
  points: readonly AttentionPoint[],
  device: Device,
  precision: Precision,
): Curves['attention'] {
  const share = (pass: AttentionPoint['pass']) => {
    const kernels = points
      .filter(point => point.pass === pass)
      .map(point => ({ ...point, kind: 'attention', precision, generation: 'cudnn' }) as const)
      .sort((a, b) => flopsOf(b) - flopsOf(a))
    const ideal: Device = {
      ...device,
      curves: { ...device.curves, attention: { forward: 1, backward: 1 } },
    }
    const large = kernels.slice(0, Math.ceil(kernels.length / 2))
    const logs = large.map(kernel => Math.log(kernel.seconds / attentionSeconds(kernel, ideal)))
    return large.length === 0 ? device.curves.attention[pass] : digits(Math.min(1, Math.exp(-mean(logs))))
  }
  return { forward: share('forward'), backward: share('backward'), measured: [...points] }
}

function mostFrequent(points: readonly MatmulPoint[]): Precision {
  const counts = new Map<Precision, number>()
  for (const { precision } of points) counts.set(precision, (counts.get(precision) ?? 0) + 1)
  return [...counts].reduce((best, next) => (next[1] > best[1] ? next : best))[0]
}

/** Not of squares: a few small products that are far off must not choose for all the others. */
const spread = (values: readonly number[]): number => {
  const middle = mean(values)
  return mean(values.map(value => Math.abs(value - middle)))
}
