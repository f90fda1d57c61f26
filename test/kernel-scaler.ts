/** Cases of the end of a step: what is counted, divided by the scale, and how the scale moves. */
import { type Guard, type Scaler, scalerKinds, scalerScalars, squaredLimit } from '../src/base/index.js'
import { type Make, reference } from './kernel-draw.js'
import type { Tensor } from './tiny.js'

export const scalar = (value: number): Tensor => ({ dims: [], values: [Math.fround(value)] })

/** Norms and limits of steps that are taken, and of some that are skipped. */
export const norms = [50, 50, Number.NaN, Number.POSITIVE_INFINITY]
export const guards: readonly Guard[] = [{}, { limit: 8 }, { limit: 7 }]

export const take: Make = ({ pick }) => {
  const [normSquared, taken, guard] = [scalar(pick(norms)), scalar(pick([0, 1, 1000])), pick(guards)]
  const [expected] = reference({ kind: 'take', ...guard }, [normSquared], taken)
  return {
    ...{ command: 'take', ins: { normSquared: normSquared.values }, initial: { taken: taken.values } },
    ...{ words: { limit: squaredLimit(guard) }, expected: { taken: expected }, bound: 0 },
  }
}

export const weigh: Make = ({ pick }) => {
  const [normSquared, limit] = [scalar(pick([50, 3e38])), scalar(pick([49, 50, 51, Number.POSITIVE_INFINITY]))]
  const [expected] = reference({ kind: 'weigh' }, [normSquared, limit], scalar(0))
  return {
    ...{ command: 'weigh', ins: { normSquared: normSquared.values, limit: limit.values }, words: {} },
    ...{ expected: { weighed: expected }, bound: 0 },
  }
}

export const unscale: Make = ({ size, tensor, pick }) => {
  const n = size(500)
  const [x, by] = [tensor({ n }), scalar(pick([1024, 0.5, 3]))]
  const [out] = reference({ kind: 'unscale' }, [by], x)
  return {
    ...{ command: 'unscale', ins: { scale: by.values }, initial: { x: x.values }, words: { n } },
    ...{ expected: { x: out }, bound: 2e-7 },
  }
}

const scalers: readonly Exclude<Scaler, { kind: 'static' }>[] = [
  { kind: 'torch', growth: 2, backoff: 0.3, interval: 3 },
  { kind: 'megatron', growth: 3, backoff: 0.5, interval: 3, min: 512, hysteresis: 2 },
  { kind: 'deepspeed', growth: 2, interval: 3, min: 512, hysteresis: 2, consecutive: 0 },
  { kind: 'deepspeed', growth: 1.7, interval: 2, min: 1, hysteresis: 1, consecutive: 1 },
]

export const rescale: Make = ({ pick, int }) => {
  const scaler = pick(scalers)
  const scaled = scalar(pick([1024, 1, 3e38, 700.7]))
  const [growth, hysteresis, normSquared] = [scalar(int(4)), scalar(int(4)), scalar(pick(norms))]
  const moved = scalerScalars[scaler.kind].map(name => ({ scale: scaled, growth, hysteresis, taken: scaled })[name])
  const [, ...after] = reference({ kind: 'take', scaler }, [normSquared], scalar(0), ...moved)
  const numbers = { backoff: 0, min: 0, hysteresis: 0, consecutive: 0, ...scaler }
  const { growth: factor, hysteresis: full, kind, ...others } = numbers
  return {
    ...{ command: 'rescale', ins: { normSquared: normSquared.values } },
    initial: { scale: scaled.values, growth: growth.values, hysteresis: hysteresis.values },
    words: { ...others, factor, full, scaler: scalerKinds.indexOf(kind) },
    expected: { scale: after[0], growth: after[1], hysteresis: after[2] ?? hysteresis.values },
    bound: 0,
  }
}
