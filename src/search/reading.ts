/**
 * A plan read by the rule of thumb: fit the model first (tp within the node, then pp or ZeRO-3), then dp for
 * throughput, with the batch as the resource that pays for both. Each sentence carries the numbers of this plan.
 */
import { showBytes, showCount } from '../base/index.js'
import { bytesOfParameter, matmulParameters, type Shape } from '../estimate/index.js'
import { usualRows } from '../plan/index.js'
import { endsOf } from './moves.js'
import { plainSplit, type Request, setupOf } from './request.js'
import { capacityOf, type Priced } from './search.js'
import { meetingName } from './space.js'

export interface Sentence {
  readonly topic: 'fit' | 'tp' | 'cp' | 'ep' | 'pp' | 'dp' | 'batch' | 'memory'
  readonly text: string
}

export function readingOf(request: Request, plan: Priced): Sentence[] {
  return [
    fit(request),
    tensor(request, plan),
    ...context(request, plan),
    ...experts(request, plan),
    pipeline(request, plan),
    data(plan),
    batch(request, plan),
    memory(request, plan),
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
  const count = parametersOf(request.shape)
  // Whatever the plan, a parameter has as many.
  const each = bytesOfParameter(setupOf(request, plainSplit))
  const bytes = each * count
  const least = Math.ceil(bytes / capacityOf(request))
  const text =
    least === 1
      ? `${showCount(count)} parameters x ${each} bytes of state = ${showBytes(bytes)}: one device could hold them`
      : `${showCount(count)} parameters x ${each} bytes of state = ${showBytes(bytes)}: at least ${least} devices must share them`
  return { topic: 'fit', text }
}

function tensor({ cluster: { topology } }: Request, { split: { tp, sequenceParallel } }: Priced): Sentence {
  if (tp === 1) return { topic: 'tp', text: 'no tensor parallelism: no layer is worth its collectives' }
  const node = topology.kind === 'tree' ? topology.levels[0] : undefined
  const sp = sequenceParallel ? ', with sequence parallelism' : ''
  if (!node) return { topic: 'tp', text: `tp ${tp} along the torus${sp}` }
  const where =
    tp <= node.size ? `stays within the ${node.name} of ${node.size}` : `leaves the ${node.name} of ${node.size}`
  return { topic: 'tp', text: `tp ${tp} ${where} (${node.link.kind})${sp}` }
}

function context({ shape, cluster: { topology }, software }: Request, { split }: Priced): Sentence[] {
  const { tp, cp } = split
  if (cp === 1) return []
  const node = topology.kind === 'tree' ? topology.levels[0] : undefined
  const where = node && tp * cp > node.size ? `, across ${node.name}s` : ''
  const how = software.own ? `, attention ${meetingName(split)}` : ''
  return [{ topic: 'cp', text: `cp ${cp} cuts ${shape.seq} tokens into ${shape.seq / cp} a rank${where}${how}` }]
}

/** Which imbalance the price assumes: nobody should find out from a run that stops. */
function experts({ shape: { experts }, software }: Request, { split }: Priced): Sentence[] {
  if (!experts) return []
  const { ep, etp = 1, imbalance = 1, rows = usualRows } = split
  const shared =
    ep > 1 ? `ep ${ep} shares ${experts.count} experts, ${experts.count / ep} a rank` : 'experts are not shared'
  const say = (text: string): Sentence[] => [{ topic: 'ep', text: `${shared}; ${text}` }]
  if (!software.own) return say(imbalance > 1 ? `the busiest rank has ${imbalance} times the mean` : evenly)
  const worst = Math.min(ep * etp, experts.count / experts.active)
  if (imbalance >= worst)
    return say(worst > 1 ? `room for all rows that may come, ${worst} times an even share` : allRows)
  return say(
    `priced with ${imbalance} times an even share of rows (rows: ${rows}); a step that has more stops before its update, rows: worst has room for ${worst}`,
  )
}

const evenly = 'priced as if all were chosen equally often'
const allRows = 'every rank has room for its rows'

function pipeline({ shape }: Request, { split }: Priced): Sentence {
  const { pp, chunks, zero } = split
  if (pp === 1)
    return {
      topic: 'pp',
      text: `no pipeline: ${zero === 3 ? 'ZeRO-3 shares the parameters instead' : 'every rank has all layers'}`,
    }
  const layers = split.layers ? endsOf(split.layers) : 'evenly'
  const turns = chunks > 1 ? `, each rank ${chunks} times` : ''
  return { topic: 'pp', text: `pp ${pp} shares out the ${shape.layers} layers (${layers})${turns}, ${split.schedule}` }
}

function data({ split: { dp, cp, zero } }: Priced): Sentence {
  if (dp === 1 && cp > 1 && zero > 0)
    return { topic: 'dp', text: `no copies but the ranks of cp, which share (ZeRO ${zero})` }
  if (dp === 1) return { topic: 'dp', text: 'no copies: all devices hold one model' }
  const split = ['each whole', 'optimizer state split over them', 'gradients split too', 'parameters split too'][zero]
  return { topic: 'dp', text: `dp ${dp} copies for throughput, ${split} (ZeRO ${zero})` }
}

function batch({ globalBatch }: Request, { split, estimate }: Priced): Sentence {
  const { dp, microbatch, microbatches, pp } = split
  const share = globalBatch / dp
  const idle = pp === 1 ? '' : `; the bubble takes ${percent(estimate.parts.bubble / estimate.step)} of the step`
  return {
    topic: 'batch',
    text: `${globalBatch} sequences / dp ${dp} = ${share} = ${microbatches} microbatches of ${microbatch}${idle}`,
  }
}

function memory(request: Request, { bytes, split }: Priced): Sentence {
  const left = capacityOf(request) - bytes
  const again = {
    none: 'nothing is computed again',
    cheap: 'norms and activations are computed again',
    selective: 'attention is computed again',
    full: 'every forward is computed again',
    'per-op': 'some ops are computed again',
  }
  const room = left < 0 ? `${showBytes(-left)} too much` : `${showBytes(left)} to spare`
  return { topic: 'memory', text: `${showBytes(bytes)} a rank, ${room}; ${again[split.recompute]}` }
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
