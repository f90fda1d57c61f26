/** Updates in place, element by element, with the gradient first scaled to the norm the plan allows. A step that is skipped updates nothing. */
import { squaredLimit } from '../../base/index.js'
import { aligned } from './elementwise.js'
import type { Prepare } from './kernel.js'

/** What the gradient is multiplied by. */
export const clipScale = (clip: number, normSquared: number): number =>
  clip > 0 ? Math.min(1, clip / (Math.sqrt(normSquared) + 1e-6)) : 1

export const adamw: Prepare<'adamw'> = (op, [grad], [param, m, v]) => {
  const { beta1, beta2, eps, weightDecay, clip } = op
  const [grads, ms, vs] = aligned([grad, m, v], param)
  return (cells, [atGrad, atNorm, atLr, atTaken], [toParam, toM, toV]) => {
    if (!(cells[atNorm.at] < squaredLimit(op))) return
    const scale = clipScale(clip, cells[atNorm.at])
    const [lr, time] = [cells[atLr.at], cells[atTaken.at] + 1]
    for (let i = 0; i < grads.length; i++) {
      const g = cells[atGrad.at + grads[i]] * scale
      const mean = beta1 * cells[toM.at + ms[i]] + (1 - beta1) * g
      const square = beta2 * cells[toV.at + vs[i]] + (1 - beta2) * g * g
      const direction = mean / (1 - beta1 ** time) / (Math.sqrt(square / (1 - beta2 ** time)) + eps)
      cells[toM.at + ms[i]] = mean
      cells[toV.at + vs[i]] = square
      cells[toParam.at + i] -= lr * (direction + weightDecay * cells[toParam.at + i])
    }
  }
}

/** Without momentum there may be no m: the direction is the gradient itself. */
export const sgd: Prepare<'sgd'> = (op, [grad], [param, m]) => {
  const { momentum, weightDecay, clip } = op
  const [grads, ms] = aligned(m ? [grad, m] : [grad], param)
  if (!m && momentum !== 0) throw new Error(`momentum ${momentum} needs a buffer to keep it in`)
  return (cells, [atGrad, atNorm, atLr], [toParam, toM]) => {
    if (!(cells[atNorm.at] < squaredLimit(op))) return
    const scale = clipScale(clip, cells[atNorm.at])
    for (let i = 0; i < grads.length; i++) {
      const past = m ? momentum * cells[toM.at + ms[i]] : 0
      const direction = past + cells[atGrad.at + grads[i]] * scale + weightDecay * cells[toParam.at + i]
      if (m) cells[toM.at + ms[i]] = direction
      cells[toParam.at + i] -= cells[atLr.at] * direction
    }
  }
}
