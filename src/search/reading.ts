/**
 * A plan read by the rule of thumb: fit the model first (tp within the node, then pp or ZeRO-3), then dp for
 * throughput, with the batch as the resource that pays for both. Each sentence carries the numbers of this plan.
 */
import { bytesOfParameter, matmulParameters, type Shape } from '../estimate/index.js'
import { usualRows } from '../plan/index.js'
import { endsOf } from './reading-words.js'
import { plainSplit, type Request, setupOf } from './request.js'
import { capacityOf, type Priced } from './search.js'
import type { Sentence } from './sentences.js'
import { meetingName } from './space.js'

/** A remark on one decision of a plan. */
export type Remark = Sentence & { readonly topic: 'fit' | 'tp' | 'cp' | 'ep' | 'pp' | 'dp' | 'batch' | 'memory' }

/** Remarks on the decisions of a plan: why this tp, pp, ZeRO stage and so on. */
export function readingOf(request: Request, plan: Priced): Remark[] {
  return [
    { topic: 'fit', ...fit(request) },
    { topic: 'tp', ...tensor(request, plan) },
    ...context(request, plan).map((said): Remark => ({ topic: 'cp', ...said })),
    ...experts(request, plan).map((said): Remark => ({ topic: 'ep', ...said })),
    { topic: 'pp', ...pipeline(request, plan) },
    { topic: 'dp', ...data(plan) },
    { topic: 'batch', ...batch(request, plan) },
    { topic: 'memory', ...memory(request, plan) },
  ]
}

const parametersOf = (shape: Shape): number =>
  matmulParameters(shape) + unseenExperts(shape) + (shape.tied ? 0 : shape.vocab * shape.embed)

/** Of the experts of all layers, those that a token is not sent to. */
function unseenExperts({ layers, embed, gated, experts }: Shape): number {
  if (!experts) return 0
  return (layers - experts.dense) * (experts.count - experts.active) * (gated ? 3 : 2) * embed * experts.ffn
}

function fit(request: Request): Sentence {
  const parameters = parametersOf(request.shape)
  // Whatever the plan, a parameter has as many.
  const each = bytesOfParameter(setupOf(request, plainSplit))
  const bytes = each * parameters
  const devices = Math.ceil(bytes / capacityOf(request))
  return devices === 1
    ? { code: 'fit/one-device', values: { parameters, each, bytes } }
    : { code: 'fit/shared', values: { parameters, each, bytes, devices } }
}

function tensor({ cluster: { topology } }: Request, { split: { tp, sequenceParallel } }: Priced): Sentence {
  if (tp === 1) return { code: 'tp/none', values: {} }
  if (topology.kind !== 'tree') return { code: 'tp/torus', values: { tp, sequenceParallel } }
  const { name: node, size, link } = topology.levels[0]
  const values = { tp, node, size, link: link.kind, sequenceParallel }
  return { code: tp <= size ? 'tp/within-node' : 'tp/across-nodes', values }
}

function context({ shape, cluster: { topology }, software }: Request, { split }: Priced): Sentence[] {
  const { tp, cp } = split
  if (cp === 1) return []
  const node = topology.kind === 'tree' ? topology.levels[0] : undefined
  const values = {
    ...{ cp, tokens: shape.seq, each: shape.seq / cp },
    ...(node && tp * cp > node.size && { across: node.name }),
    ...(software.own && { attention: meetingName(split) }),
  }
  return [{ code: 'cp/cut', values }]
}

/** Which imbalance the price assumes: nobody should find out from a run that stops. */
function experts({ shape, software }: Request, { split }: Priced): Sentence[] {
  if (!shape.experts) return []
  const { ep, etp = 1, imbalance: times = 1, rows = usualRows } = split
  const { count: experts, active } = shape.experts
  const shared = { ep, experts }
  if (!software.own)
    return [times > 1 ? { code: 'ep/busiest', values: { ...shared, times } } : { code: 'ep/even', values: shared }]
  const worst = Math.min(ep * etp, experts / active)
  if (times < worst) return [{ code: 'ep/priced', values: { ...shared, times, rows, worst } }]
  return [
    worst > 1 ? { code: 'ep/all-rows', values: { ...shared, times: worst } } : { code: 'ep/every-row', values: shared },
  ]
}

function pipeline({ shape }: Request, { split }: Priced): Sentence {
  const { pp, chunks, zero, schedule, layers } = split
  if (pp === 1) return { code: zero === 3 ? 'pp/zero' : 'pp/none', values: {} }
  const values = { pp, layers: shape.layers, chunks, schedule, ...(layers && { ends: endsOf(layers) }) }
  return { code: 'pp/shared', values }
}

function data({ split: { dp, cp, zero } }: Priced): Sentence {
  if (dp === 1 && cp > 1 && zero > 0) return { code: 'dp/context', values: { zero } }
  return dp === 1 ? { code: 'dp/none', values: {} } : { code: 'dp/copies', values: { dp, zero } }
}

function batch({ globalBatch }: Request, { split, estimate }: Priced): Sentence {
  const { dp, microbatch, microbatches, pp } = split
  const values = {
    ...{ batch: globalBatch, dp, share: globalBatch / dp, microbatches, microbatch },
    ...(pp > 1 && { bubble: estimate.parts.bubble / estimate.step }),
  }
  return { code: 'batch/shared', values }
}

function memory(request: Request, { bytes, split: { recompute } }: Priced): Sentence {
  const left = capacityOf(request) - bytes
  return left < 0
    ? { code: 'memory/over', values: { bytes, over: -left, recompute } }
    : { code: 'memory/spare', values: { bytes, left, recompute } }
}
