/** Updates in place, element by element, with the gradient first scaled to the norm the plan allows. A step that is skipped updates nothing. */
import { type OpOf, squaredLimit } from '../../base/index.js'
import { aligned } from './elementwise.js'
import type { Prepare } from './kernel.js'

/** What the gradient is multiplied by. */
export const clipScale = (clip: number, normSquared: number): number =>
  clip > 0 ? Math.min(1, clip / (Math.sqrt(normSquared) + 1e-6)) : 1

/** With `amsgrad` the greatest second moment so far takes the place of the last. */
export const adamw: Prepare<'adamw'> = (op, ins, outs) => {
  if (op.frozen) return frozenAdam(op, ins, outs)
  const [[grad], [param, m, v, top]] = [ins, outs]
  const { beta1, beta2, eps, weightDecay, coupled, uncorrected, clip, rate = 1 } = op
  const [grads, ms, vs, tops] = aligned(top ? [grad, m, v, top] : [grad, m, v], param)
  return (cells, [atGrad, atNorm, atLr, atTaken], [toParam, toM, toV, toTop]) => {
    if (!(cells[atNorm.at] < squaredLimit(op))) return
    const scale = clipScale(clip, cells[atNorm.at])
    const lr = cells[atLr.at] * rate
    const [unbias1, unbias2] = [beta1, beta2].map(beta => (uncorrected ? 1 : 1 - beta ** (cells[atTaken.at] + 1)))
    for (let i = 0; i < grads.length; i++) {
      const decay = weightDecay * cells[toParam.at + i]
      const g = cells[atGrad.at + grads[i]] * scale + (coupled ? decay : 0)
      const mean = beta1 * cells[toM.at + ms[i]] + (1 - beta1) * g
      const square = beta2 * cells[toV.at + vs[i]] + (1 - beta2) * g * g
      const most = top ? Math.max(cells[toTop.at + tops[i]], square) : square
      const direction = mean / unbias1 / (Math.sqrt(most / unbias2) + eps)
      cells[toM.at + ms[i]] = mean
      cells[toV.at + vs[i]] = square
      if (top) cells[toTop.at + tops[i]] = most
      cells[toParam.at + i] -= lr * (direction + (coupled ? 0 : decay))
    }
  }
}

/** It is given the mean of gradients; what never had one before v stood still has none now. */
const frozenAdam: Prepare<'adamw'> = (op, [mean], [param, m, v]) => {
  const { eps, weightDecay, clip, rate = 1 } = op
  const [means, ms, vs] = aligned([mean, m, v], param)
  return (cells, [atMean, atNorm, atLr], [toParam, toM, toV]) => {
    if (!(cells[atNorm.at] < squaredLimit(op))) return
    const scale = clipScale(clip, cells[atNorm.at])
    for (let i = 0; i < means.length; i++) {
      const square = cells[toV.at + vs[i]]
      const given = square > 0 ? cells[atMean.at + means[i]] * scale : 0
      const decay = weightDecay * cells[toParam.at + i]
      cells[toM.at + ms[i]] = given
      cells[toParam.at + i] -= cells[atLr.at] * rate * (given / (Math.sqrt(square) + eps) + decay)
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

/** Adam's direction with the decay, of element after element; nothing is kept of it. */
function* lambSteps(
  { beta1, beta2, eps, weightDecay, clip }: Omit<OpOf<'lambSquares'>, 'kind'>,
  elements: number,
  at: (i: number) => { readonly g: number; readonly m: number; readonly v: number; readonly param: number },
  normSquared: number,
  taken: number,
) {
  const scale = clipScale(clip, normSquared)
  const [unbias1, unbias2] = [beta1, beta2].map(beta => 1 - beta ** (taken + 1))
  for (let i = 0; i < elements; i++) {
    const { g, m, v, param } = at(i)
    const mean = beta1 * m + (1 - beta1) * g * scale
    const square = beta2 * v + (1 - beta2) * (g * scale) ** 2
    const step = mean / unbias1 / (Math.sqrt(square / unbias2) + eps) + weightDecay * param
    yield { i, mean, square, step, param }
  }
}

export const lambSquares: Prepare<'lambSquares'> = (op, [grad, , , param, m, v]) => {
  const [grads, ms, vs] = aligned([grad, m, v], param)
  return (cells, [atGrad, atNorm, atTaken, atParam, atM, atV], [toParam, toStep]) => {
    const at = (i: number) => ({
      ...{ g: cells[atGrad.at + grads[i]], m: cells[atM.at + ms[i]], v: cells[atV.at + vs[i]] },
      param: cells[atParam.at + i],
    })
    let [ofParam, ofStep] = [0, 0]
    for (const { step, param } of lambSteps(op, grads.length, at, cells[atNorm.at], cells[atTaken.at])) {
      ofParam += param * param
      ofStep += step * step
    }
    cells[toParam.at] = ofParam
    cells[toStep.at] = ofStep
  }
}

export const lamb: Prepare<'lamb'> = (op, [grad], [param, m, v]) => {
  const { weightDecay, always = false, rate = 1 } = op
  const [grads, ms, vs] = aligned([grad, m, v], param)
  return (cells, [atGrad, atNorm, atLr, atTaken, atParamSquared, atStepSquared], [toParam, toM, toV]) => {
    if (!(cells[atNorm.at] < squaredLimit(op))) return
    const [ofParam, ofStep] = [cells[atParamSquared.at], cells[atStepSquared.at]]
    const trust = (weightDecay !== 0 || always) && ofParam > 0 && ofStep > 0 ? Math.sqrt(ofParam / ofStep) : 1
    const at = (i: number) => ({
      ...{ g: cells[atGrad.at + grads[i]], m: cells[toM.at + ms[i]], v: cells[toV.at + vs[i]] },
      param: cells[toParam.at + i],
    })
    for (const { i, mean, square, step } of lambSteps(op, grads.length, at, cells[atNorm.at], cells[atTaken.at])) {
      cells[toM.at + ms[i]] = mean
      cells[toV.at + vs[i]] = square
      cells[toParam.at + i] -= cells[atLr.at] * rate * trust * step
    }
  }
}

export const muonMean: Prepare<'muonMean'> = ({ momentum, nesterov, clip }, [grad, , m], [direction]) => {
  const [grads, ms] = aligned([grad, m], direction)
  return (cells, [atGrad, atNorm, atM], [to]) => {
    const scale = clipScale(clip, cells[atNorm.at])
    for (let i = 0; i < grads.length; i++) {
      const g = cells[atGrad.at + grads[i]] * scale
      const mean = momentum * cells[atM.at + ms[i]] + (1 - momentum) * g
      cells[to.at + i] = nesterov ? momentum * mean + (1 - momentum) * g : mean
    }
  }
}

export const muon: Prepare<'muon'> = (op, [grad, , , direction], [param, m]) => {
  const { momentum, stretch = 1, weightDecay, clip, rate = 1 } = op
  const [grads, directions, ms] = aligned([grad, direction, m], param)
  return (cells, [atGrad, atNorm, atLr, atDirection], [toParam, toM]) => {
    if (!(cells[atNorm.at] < squaredLimit(op))) return
    const scale = clipScale(clip, cells[atNorm.at])
    const lr = cells[atLr.at] * rate
    for (let i = 0; i < grads.length; i++) {
      const mean = momentum * cells[toM.at + ms[i]] + (1 - momentum) * cells[atGrad.at + grads[i]] * scale
      cells[toM.at + ms[i]] = mean
      const step = stretch * cells[atDirection.at + directions[i]]
      cells[toParam.at + i] -= lr * (step + weightDecay * cells[toParam.at + i])
    }
  }
}

/** In the first step that is taken it is the value itself. */
export const average: Prepare<'average'> = (op, [value], [ema]) => {
  const [values] = aligned([value], ema)
  return (cells, [atValue, atNorm, atTaken], [to]) => {
    if (!(cells[atNorm.at] < squaredLimit(op))) return
    const decay = cells[atTaken.at] > 0 ? op.decay : 0
    for (let i = 0; i < values.length; i++)
      cells[to.at + i] = decay * cells[to.at + i] + (1 - decay) * cells[atValue.at + values[i]]
  }
}
