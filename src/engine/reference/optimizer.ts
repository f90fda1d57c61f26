/** Updates in place, element by element, with the gradient first scaled to the norm the plan allows. A step that is skipped updates nothing. */
import { squaredLimit } from '../../base/index.js'
import { aligned } from './elementwise.js'
import type { Prepare } from './kernel.js'

/** What the gradient is multiplied by. */
export const clipScale = (clip: number, normSquared: number): number =>
  clip > 0 ? Math.min(1, clip / (Math.sqrt(normSquared) + 1e-6)) : 1

/** With `amsgrad` the greatest second moment so far takes the place of the last. */
export const adamw: Prepare<'adamw'> = (op, [grad], [param, m, v, top]) => {
  const { beta1, beta2, eps, weightDecay, coupled, clip, rate = 1 } = op
  const [grads, ms, vs, tops] = aligned(top ? [grad, m, v, top] : [grad, m, v], param)
  return (cells, [atGrad, atNorm, atLr, atTaken], [toParam, toM, toV, toTop]) => {
    if (!(cells[atNorm.at] < squaredLimit(op))) return
    const scale = clipScale(clip, cells[atNorm.at])
    const [lr, time] = [cells[atLr.at] * rate, cells[atTaken.at] + 1]
    for (let i = 0; i < grads.length; i++) {
      const decay = weightDecay * cells[toParam.at + i]
      const g = cells[atGrad.at + grads[i]] * scale + (coupled ? decay : 0)
      const mean = beta1 * cells[toM.at + ms[i]] + (1 - beta1) * g
      const square = beta2 * cells[toV.at + vs[i]] + (1 - beta2) * g * g
      const most = top ? Math.max(cells[toTop.at + tops[i]], square) : square
      const direction = mean / (1 - beta1 ** time) / (Math.sqrt(most / (1 - beta2 ** time)) + eps)
      cells[toM.at + ms[i]] = mean
      cells[toV.at + vs[i]] = square
      if (top) cells[toTop.at + tops[i]] = most
      cells[toParam.at + i] -= lr * (direction + (coupled ? 0 : decay))
    }
  }
}

/** Without momentum there may be no m: the direction is the gradient itself. */
export const sgd: Prepare<'sgd'> = (op, [grad], [param, m]) => {
  const { momentum, nesterov, dampening = 0, weightDecay, clip, rate = 1 } = op
  const [grads, ms] = aligned(m ? [grad, m] : [grad], param)
  if (!m && momentum !== 0) throw new Error(`momentum ${momentum} needs a buffer to keep it in`)
  return (cells, [atGrad, atNorm, atLr, atTaken], [toParam, toM]) => {
    if (!(cells[atNorm.at] < squaredLimit(op))) return
    const scale = clipScale(clip, cells[atNorm.at])
    const fresh = atTaken && cells[atTaken.at] > 0 ? 1 - dampening : 1
    for (let i = 0; i < grads.length; i++) {
      const g = cells[atGrad.at + grads[i]] * scale + weightDecay * cells[toParam.at + i]
      const mean = m ? momentum * cells[toM.at + ms[i]] + fresh * g : g
      if (m) cells[toM.at + ms[i]] = mean
      cells[toParam.at + i] -= cells[atLr.at] * rate * (nesterov ? g + momentum * mean : mean)
    }
  }
}

export const lion: Prepare<'lion'> = (op, [grad], [param, m]) => {
  const { beta1, beta2, weightDecay, clip, rate = 1 } = op
  const [grads, ms] = aligned([grad, m], param)
  return (cells, [atGrad, atNorm, atLr], [toParam, toM]) => {
    if (!(cells[atNorm.at] < squaredLimit(op))) return
    const scale = clipScale(clip, cells[atNorm.at])
    for (let i = 0; i < grads.length; i++) {
      const [g, past] = [cells[atGrad.at + grads[i]] * scale, cells[toM.at + ms[i]]]
      const direction = Math.sign(beta1 * past + (1 - beta1) * g)
      cells[toM.at + ms[i]] = beta2 * past + (1 - beta2) * g
      cells[toParam.at + i] -= cells[atLr.at] * rate * (direction + weightDecay * cells[toParam.at + i])
    }
  }
}
