/** Layers whose feed-forward is routed to experts. */
import { unknownValue } from '../reading.js'
import type { Terms } from './terms.js'

export function readExpertsOfModel(t: Terms, ffn: number, layers: number) {
  const term = 'num-experts'
  const experts = Number(t.list(term)?.[0] ?? 1)
  if (!(experts > 1)) return t.read(term)
  if (t.reading.field('model.family') !== 'llama')
    return t.drop(term, 'experts require the llama family (SwiGLU): dense layers are used instead')
  const topK = t.whole('moe-router-topk', 1) ?? t.whole('topk', 1) ?? 2
  const width = t.whole('moe-ffn-hidden-size', 1) ?? ffn
  const moe = {
    ...{ experts, topK, ffn: width },
    ...scoring(t),
    ...grouping(t),
    ...sharing(t),
    ...where(t, layers),
    ...losses(t),
    ...room(t),
  }
  t.carry(term, 'model.moe', moe, `${experts} experts of width ${width}, top-${topK}`)
  t.reading.set('model.experts', undefined)
  t.read('moe-router-topk', 'topk', 'moe-ffn-hidden-size')
}

function scoring(t: Terms) {
  const scores = t.choice(
    'moe-router-score-function',
    { softmax: 'softmax', sigmoid: 'sigmoid' },
    'softmax scores are used',
  )
  const sigmoid = scores === 'sigmoid'
  const before = t.is('moe-router-pre-softmax')
  const scale = t.number('moe-router-topk-scaling-factor')
  const bias = t.is('moe-router-enable-expert-bias') ? (t.number('moe-router-bias-update-rate') ?? 0.001) : undefined
  t.read('moe-router-score-function', 'moe-router-pre-softmax', 'moe-router-topk-scaling-factor')
  t.read('moe-router-enable-expert-bias', 'moe-router-bias-update-rate')
  return {
    ...(sigmoid && { scores: 'sigmoid' }),
    ...(before && !sigmoid && { normalize: false }),
    ...(scale !== undefined && scale !== 1 && { scale }),
    ...(bias !== undefined && { bias }),
  }
}

function grouping(t: Terms) {
  const groups = t.whole('moe-router-num-groups', 1)
  const topKGroups = t.whole('moe-router-group-topk', 1)
  t.read('moe-router-num-groups', 'moe-router-group-topk')
  return groups !== undefined && topKGroups !== undefined && groups > 1 ? { groups, topKGroups } : {}
}

function sharing(t: Terms) {
  const shared = t.whole('moe-shared-expert-intermediate-size', 1)
  const gate = t.is('moe-shared-expert-gate')
  t.read('moe-shared-expert-intermediate-size', 'moe-shared-expert-gate')
  return shared === undefined ? {} : { shared, ...(gate && { sharedGate: true }) }
}

/** `([0]*3+[1]*58)`, or a number: every so many. */
function where(t: Terms, layers: number) {
  const list = t.list('moe-layer-freq')
  const text = list && list.length > 1 ? `[${list.join(',')}]` : list?.join(' ')
  t.read('moe-layer-freq')
  if (text === undefined || text === '1') return {}
  if (/^\d+$/.test(text)) return { every: Number(text) }
  const pattern = frequencies(text)
  const dense = pattern?.indexOf(1) ?? -1
  const regular = pattern && dense >= 0 && pattern.slice(dense).every(one => one === 1)
  if (regular && pattern.length === layers) return dense > 0 ? { dense } : {}
  t.drop('moe-layer-freq', `${text}: a job sets the first dense layers and every N-th MoE layer only`)
  return {}
}

/** Sums of `[0,1]*n`. */
function frequencies(text: string): number[] | undefined {
  const parts = text.replace(/[\s()"']/g, '').split('+')
  const all = parts.flatMap(part => {
    const [, list, times = '1'] = /^\[([01,]*)\](?:\*(\d{1,4}))?$/.exec(part) ?? []
    if (list === undefined) return [Number.NaN]
    const ones = list.split(',').map(Number)
    return Array.from({ length: Number(times) }, () => ones).flat()
  })
  return all.length > 10_000 || all.some(Number.isNaN) ? undefined : all
}

function losses(t: Terms) {
  const kind = balanceOf(t)
  const coefficient = Number(t.list('moe-aux-loss-coeff')?.[0] ?? t.number('moe-loss-coeff') ?? 0)
  const z = t.number('moe-z-loss-coeff') ?? 0
  t.read('moe-router-load-balancing-type', 'moe-aux-loss-coeff', 'moe-loss-coeff', 'moe-z-loss-coeff')
  const balance = coefficient > 0 && kind !== undefined
  if (!balance && z === 0) return {}
  return {
    loss: {
      ...(balance && { [kind]: coefficient }),
      ...(z > 0 && { z }),
    },
  }
}

const balances: Readonly<Record<string, 'microbatch' | 'sequence' | undefined>> = {
  ...{ aux_loss: 'microbatch', global_aux_loss: 'microbatch', seq_aux_loss: 'sequence', none: undefined },
}

/** Over which tokens the auxiliary loss balances the experts. Several losses may be given; a job has the first. */
function balanceOf(t: Terms): 'microbatch' | 'sequence' | undefined {
  const term = 'moe-router-load-balancing-type'
  const [kind, ...others] = (t.list(term) ?? ['aux_loss']).map(String)
  if (others.length > 0) t.drop(term, `${others.join(', ')}: a job has one balancing loss, ${kind}`)
  if (kind === 'global_aux_loss')
    t.drop(term, 'global_aux_loss: the loss is computed per microbatch, not over the global batch')
  if (Object.hasOwn(balances, kind)) return balances[kind]
  t.drop(term, unknownValue(kind, balances, 'no balance loss'))
  return undefined
}

function room(t: Terms) {
  const factor = t.number('moe-expert-capacity-factor')
  t.read('moe-token-drop-policy')
  if (factor === undefined || factor <= 0) {
    t.read('moe-expert-capacity-factor', 'moe-pad-expert-input-to-capacity')
    return {}
  }
  t.drop('moe-expert-capacity-factor', `capacity factor ${factor}: applied per sequence, not per rank`)
  t.read('moe-pad-expert-input-to-capacity')
  const policies = { probs: 'probability', position: 'token' }
  const order = t.choice('moe-token-drop-policy', policies, 'lower scores are dropped')
  return { capacity: { factor, order: order ?? 'probability' } }
}
