/**
 * How a job grows with the machine. Strong: the same batch on more devices. Weak: a batch that grows with them. Each
 * point is the best plan found there. Amdahl: a step is a part that no device shortens and a part all of them share;
 * the two are fitted to the strong points, and their ratio is the limit of the speedup.
 */

import { asPart, finish, type Work } from '../base/index.js'
import type { Cluster } from '../cluster/index.js'
import { searchingAll } from './allowed.js'
import { ratesOfPlan } from './rates.js'
import type { Request } from './request.js'
import type { Priced } from './search.js'

export interface ScalePoint {
  readonly devices: number
  readonly globalBatch: number
  /** Absent: nothing fits there. */
  readonly best?: Priced
  readonly tokensPerSecond?: number
  /** Against the first point that has a plan, and as a share of what as many times the devices would give. */
  readonly speedup?: number
  readonly efficiency?: number
}

/** Predicted strong and weak scaling over device counts. */
export interface Scaling {
  readonly strong: readonly ScalePoint[]
  readonly weak: readonly ScalePoint[]
  readonly amdahl?: Amdahl
}

export interface Amdahl {
  /** Seconds of a step that stay, and device-seconds that are shared out. */
  readonly serial: number
  readonly parallel: number
  /** The share that stays of the step at the fewest devices, and how many times as fast as there it can ever be. */
  readonly fraction: number
  readonly limit: number
}

export interface ScaleRequest {
  readonly request: Request
  readonly devices: readonly number[]
  readonly clusterAt: (devices: number) => Cluster
}

/** Searches the same job on more and fewer devices: strong and weak scaling, with an Amdahl fit. */
export const scale = (asked: ScaleRequest): Scaling => finish(scaling(asked))

/** `scale` as a generator that yields the fraction done. */
export function* scaling({ request, devices, clusterAt }: ScaleRequest): Work<Scaling> {
  const sizes = [...new Set(devices)].sort((a, b) => a - b)
  const weakBatch = (size: number) => Math.max(1, Math.round((request.globalBatch * size) / sizes[0]))
  const points = [
    ...sizes.map(size => ({ size, globalBatch: request.globalBatch })),
    ...sizes.map(size => ({ size, globalBatch: weakBatch(size) })),
  ]
  const found: ScalePoint[] = []
  for (const [i, { size, globalBatch }] of points.entries()) {
    const asked = { ...request, globalBatch, cluster: clusterAt(size) }
    found.push(yield* asPart(i / points.length, (i + 1) / points.length, bestAt(asked, size)))
  }
  const strong = compared(found.slice(0, sizes.length))
  const amdahl = fit(strong)
  return { strong, weak: compared(found.slice(sizes.length)), ...(amdahl && { amdahl }) }
}

function* bestAt(request: Request, devices: number): Work<ScalePoint> {
  const { globalBatch } = request
  const [best] = (yield* searchingAll(request, { keep: 1, front: false })).best
  if (!best) return { devices, globalBatch }
  return { devices, globalBatch, best, tokensPerSecond: ratesOfPlan(request, best).tokensPerSecond }
}

function compared(points: readonly ScalePoint[]): ScalePoint[] {
  const first = points.find(point => point.tokensPerSecond !== undefined)
  if (first?.tokensPerSecond === undefined) return [...points]
  const { devices, tokensPerSecond } = first
  return points.map(point => {
    if (point.tokensPerSecond === undefined) return point
    const speedup = point.tokensPerSecond / tokensPerSecond
    return { ...point, speedup, efficiency: (speedup * devices) / point.devices }
  })
}

/** Least squares of the relative error: step = serial + parallel / devices, neither below 0. */
export function fit(points: readonly ScalePoint[]): Amdahl | undefined {
  const steps = points.flatMap(({ devices, best }) => (best ? [{ devices, step: best.estimate.step }] : []))
  if (steps.length < 2) return undefined
  // With x = 1 / (devices x step) and y = 1 / step, the relative error is serial x y + parallel x x - 1.
  let [xx, xy, yy, x1, y1] = [0, 0, 0, 0, 0]
  for (const { devices, step } of steps) {
    const [x, y] = [1 / (devices * step), 1 / step]
    xx += x * x
    xy += x * y
    yy += y * y
    x1 += x
    y1 += y
  }
  const determinant = xx * yy - xy * xy
  const serial = Math.max(0, (y1 * xx - x1 * xy) / determinant)
  const parallel = serial === 0 ? x1 / xx : Math.max(0, (x1 * yy - y1 * xy) / determinant)
  const first = steps[0].devices
  const whole = serial + parallel / first
  return { serial, parallel, fraction: serial / whole, limit: whole / serial }
}
