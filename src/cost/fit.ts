/**
 * Curves from measurements: the constants with which the prices of this folder come nearest to what was timed. Points
 * stay in the curve as evidence, and prices go through them; the constants speak for sizes that nobody timed.
 */
import { mean, precisionFacts } from '../base/index.js'
import type { AttentionPoint, Curves, Device, MatmulPoint, Precision } from '../cluster/index.js'
import { digits } from '../cluster/index.js'
import { isAligned, matmulSeconds } from './matmul.js'
import { attentionSeconds, flopsOf } from './price.js'

type Form = Pick<Curves['matmul'], 'tile' | 'halfK' | 'packing'>

type Tile = [rows: number, columns: number]

const tiles: readonly Tile[] = [
  [8, 8],
  [64, 64],
  [64, 128],
  [128, 128],
  [128, 256],
  [256, 256],
]
const halves = [0, 16, 32, 64, 128, 256]
const forms: readonly Form[] = tiles.flatMap(tile => halves.map(halfK => ({ tile, halfK })))

/** One core has smaller tiles, and spends part of its time on putting operands in order. */
const rows = [0, 8, 16, 32, 64, 128]
const tilesOfCore: readonly Tile[] = [[16, 16], [32, 32], ...tiles]
const formsOfCore = tilesOfCore.flatMap(tile =>
  halves.flatMap(halfK => rows.flatMap(right => rows.map((left): Form => ({ tile, halfK, packing: [right, left] })))),
)

/** Products that take less time than so many of the least say little about rates. */
const least = 30

/** The tile and the k of half efficiency with which the model's errors spread least, and then the efficiencies. */
export function fitMatmul(points: readonly MatmulPoint[], device: Device, units: number): Curves['matmul'] {
  const large = points.filter(({ seconds }) => seconds > least * device.curves.floor)
  const long = large.some(isAligned) ? large : points
  const [telling, odd] = [long.filter(isAligned), long.filter(point => !isAligned(point))]
  const precision = mostFrequent(telling)
  const shape = (units === 1 ? formsOfCore : forms)
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
  form: Form & { readonly units: number },
): number[] {
  const plain = { ...form, efficiency: { [precision]: 1 }, measured: [] }
  const ideal: Device = { ...device, curves: { ...device.curves, matmul: plain } }
  return points
    .filter(point => point.precision === precision)
    .map(({ m, n, k, seconds }) => {
      const kernel = {
        kind: 'matmul',
        m,
        n,
        k,
        batch: 1,
        precision,
        resultBytes: precisionFacts[precision].bytes,
      } as const
      return Math.log(seconds / matmulSeconds(kernel, ideal))
    })
}

/** What a core does beside the products of attention shows; an accelerator hides it. */
const heads = [0, 8, 16, 32, 64].flatMap(half => [1, 4, 8, 16].map(lanes => ({ half, lanes })))

/** The headDim of half the rate and the lanes with which the errors spread least; then the share of the peak, by the larger half of the passes. */
export function fitAttention(
  points: readonly AttentionPoint[],
  device: Device,
  precision: Precision,
  units: number,
): Curves['attention'] {
  const of = (pass: AttentionPoint['pass'], head: (typeof heads)[number]) => {
    const ideal: Device = {
      ...device,
      curves: { ...device.curves, attention: { forward: 1, backward: 1, ...head } },
    }
    return points
      .filter(point => point.pass === pass && !point.dropout)
      .map(point => ({ ...point, kind: 'attention', precision, generation: 'cudnn' }) as const)
      .sort((a, b) => flopsOf(b) - flopsOf(a))
      .map(kernel => Math.log(kernel.seconds / attentionSeconds(kernel, ideal)))
  }
  const spreadAt = (head: (typeof heads)[number]) => spread(of('forward', head)) + spread(of('backward', head))
  const head = (units === 1 ? heads : heads.slice(0, 1)).reduce((best, next) =>
    spreadAt(next) < spreadAt(best) ? next : best,
  )
  const share = (pass: AttentionPoint['pass']) => {
    const logs = of(pass, head)
    const large = logs.slice(0, Math.ceil(logs.length / 2))
    return large.length === 0 ? device.curves.attention[pass] : digits(Math.min(1, Math.exp(-mean(large))))
  }
  return { forward: share('forward'), backward: share('backward'), ...(units === 1 && head), measured: [...points] }
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
