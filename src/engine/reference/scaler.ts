/** The end of a step: it is counted where it is taken, and the scale of gradients moves. */
import { elementsOf, type Scaler, squaredLimit, tooLarge } from '../../base/index.js'
import type { Prepare } from './kernel.js'

export const unscale: Prepare<'unscale'> = (_, __, [x]) => {
  const elements = elementsOf(x.dims)
  return (cells, [scale], [to]) => {
    for (let i = to.at; i < to.at + elements; i++) cells[i] /= cells[scale.at]
  }
}

export const weigh: Prepare<'weigh'> =
  () =>
  (cells, [norm, limit], [weighed]) => {
    const normSquared = cells[norm.at]
    const isTooLarge = Number.isFinite(normSquared) && !(normSquared < cells[limit.at])
    cells[weighed.at] = isTooLarge ? tooLarge : normSquared
  }

/** An overflow moves the scaler; a step that is skipped because its norm is above the limit is none. */
export const take: Prepare<'take'> =
  op =>
  (cells, [norm], [taken, ...scalars]) => {
    const normSquared = cells[norm.at]
    const isClean = normSquared < Number.POSITIVE_INFINITY
    if (normSquared < squaredLimit(op)) cells[taken.at] += 1
    if (!op.scaler) return
    const [scale, growth, hysteresis] = scalars.map(({ at }) => cells[at])
    const after = moved(op.scaler, { scale, growth, hysteresis }, isClean)
    for (const [i, value] of [after.scale, after.growth, after.hysteresis].slice(0, scalars.length).entries())
      cells[scalars[i].at] = Math.fround(value)
  }

/** What a scaler remembers; those that have no growth or hysteresis leave it. */
export interface ScalerState {
  readonly scale: number
  readonly growth: number
  readonly hysteresis: number
}

/** Its state after a step. */
export function moved(scaler: Scaler, state: ScalerState, isClean: boolean): ScalerState {
  switch (scaler.kind) {
    case 'static':
      return state
    case 'torch': {
      if (!isClean) return { ...state, scale: state.scale * scaler.backoff, growth: 0 }
      if (state.growth + 1 < scaler.interval) return { ...state, growth: state.growth + 1 }
      const grown = Math.fround(state.scale * scaler.growth)
      return { ...state, growth: 0, scale: Number.isFinite(grown) ? grown : state.scale }
    }
    // Its factors are kept in f32.
    case 'megatron': {
      if (isClean) {
        if (state.growth + 1 < scaler.interval) return { ...state, growth: state.growth + 1 }
        return { growth: 0, hysteresis: scaler.hysteresis, scale: state.scale * Math.fround(scaler.growth) }
      }
      const hysteresis = state.hysteresis - 1
      const falls = hysteresis <= 0
      const fallen = Math.max(state.scale * Math.fround(scaler.backoff), scaler.min)
      return { growth: 0, hysteresis, scale: falls ? fallen : state.scale }
    }
    case 'deepspeed': {
      if (!isClean) {
        const falls = scaler.hysteresis === 1 || state.hysteresis === 1
        if (falls) return { ...state, growth: 0, scale: Math.max(state.scale * (1 / scaler.growth), scaler.min) }
        return { ...state, growth: 0, hysteresis: state.hysteresis - 1 }
      }
      // Clean steps since the last overflow: the first to grow comes after `interval` of them, then every `interval`.
      const grows = state.growth >= scaler.interval
      const hysteresis = grows || scaler.consecutive ? scaler.hysteresis : state.hysteresis
      const growth = (grows ? 0 : state.growth) + 1
      return { growth, hysteresis, scale: grows ? state.scale * scaler.growth : state.scale }
    }
  }
}
