/** Products on 8 bits: what they need of the rest of a job. */
import { batchRanks, blocksAlong, type Dim, type Problem, planPrecisionFacts, roundUp } from '../base/index.js'
import { blockSize, type Fp8, inBlocks, usualBlock } from './fp8-schema.js'
import { advised, refused } from './phrases.js'
import { headSplit, type Rule, zigzagOf } from './rule.js'
import type { Job } from './schema.js'

/** What GPUs want along every side of a product of codes. */
const side = 16

export const fp8: Rule = function* (job) {
  const { model, training, plan } = job
  if (!plan.fp8) return
  const { token } = planPrecisionFacts[plan.precision]
  if (token !== 'bf16') yield refused('plan.fp8', 'plan/precision/codes', { precision: plan.precision, dtype: token })
  yield* experts(job, plan.fp8)
  yield* scales(plan.fp8)
  if (inBlocks(plan.fp8)) {
    yield* blocks(job, plan.fp8)
    return
  }
  const tokens = (training.globalBatch * training.seq) / (plan.microbatches * batchRanks(plan) * plan.cp)
  const sides = [
    [{ phrase: '.tokens', values: {} }, tokens],
    ['embed', model.embed],
    [`ffn ${model.ffn} / tp ${plan.tp}`, model.ffn / plan.tp],
  ] as const
  for (const [name, size] of sides)
    if (Number.isInteger(size) && size % side !== 0)
      yield advised('plan.fp8', 'plan/precision/side', { name, size, side, next: roundUp(size, side) })
}

function* experts({ model, plan }: Job, fp8: Fp8): Iterable<Problem> {
  const { token } = planPrecisionFacts[plan.precision]
  const count = model.family === 'llama' ? model.moe?.experts : undefined
  if (count && !fp8.experts) yield advised('plan.fp8', 'plan/precision/experts', { count, dtype: token })
  if (count && fp8.experts && inBlocks(fp8)) yield advised('plan.fp8.experts', 'plan/precision/rows', { dtype: token })
  if (fp8.experts && !count) yield advised('plan.fp8.experts', 'plan/precision/no-experts')
}

function* scales(fp8: Fp8): Iterable<Problem> {
  if (fp8.recipe === 'mx' && fp8.scales === 'exact') yield refused('plan.fp8.scales', 'plan/precision/mx')
  if (fp8.recipe === 'delayed' && fp8.scales !== 'powers') yield advised('plan.fp8.scales', 'plan/precision/delayed')
}

/** A dim that ranks have parts of. */
interface Cut extends Dim {
  /** Into how many runs it is cut, and by what. */
  readonly ways: number
  readonly by: string
}

/** Where a dim is split, every rank has whole blocks: else how ranks cut a tensor would change its scales. */
function* blocks({ model, training, plan }: Job, fp8: Fp8): Iterable<Problem> {
  const block = blockSize(fp8)
  const usual = usualBlock[fp8.recipe === 'mx' ? 'mx' : 'blocks']
  const zigzag = zigzagOf(plan, training.seq)
  if (zigzag === 'documents' && training.seq > block) yield refused('plan.fp8.recipe', 'plan/precision/documents')
  if (block !== usual) yield advised('plan.fp8.block', 'plan/precision/block', { usual })
  const twice = zigzag === 'sequence' ? 2 : 1
  // Routed layers shard their tokens over the tp ranks that do not share an expert, with sequence parallelism or without.
  const isRouted = model.family === 'llama' && model.moe !== undefined
  const tokenRanks = plan.sequenceParallel ? plan.tp : isRouted ? Math.max(1, plan.tp / plan.etp) : 1
  const bySequence = [
    ...(plan.cp > 1 ? [`${twice > 1 ? `${twice} x ` : ''}cp ${plan.cp}`] : []),
    ...(tokenRanks > 1 ? [`tp ${tokenRanks}`] : []),
  ]
  const seq = { name: 'seq', size: training.seq, ways: plan.cp * twice * tokenRanks, by: bySequence.join(' x ') }
  const ofExperts = fp8.experts && model.family === 'llama' && model.moe ? [[expertWidth(model.moe.ffn, plan.etp)]] : []
  const cuts = [[seq], ...ofExperts, ...widths(model, plan.tp)].flatMap(dims =>
    dims.map(dim => ({ ...dim, each: blocksAlong(dims, block)[dim.name] ?? 1 })),
  )
  const cutting = cuts.filter(
    ({ size, ways, each }) => Number.isInteger(size / ways) && ways > 1 && (size / ways) % each !== 0,
  )
  for (const { name, size, ways, by, each } of new Map(cutting.map(cut => [`${cut.name} ${cut.each}`, cut])).values())
    yield refused('plan.fp8.recipe', 'plan/precision/cut', {
      ...{ name, size, by, each: size / ways, whole: each, block, next: roundUp(size, ways * each) },
    })
}

const expertWidth = (size: number, etp: number): Cut => ({ name: 'moe.ffn', size, ways: etp, by: `etp ${etp}` })

/** What products sum over, and what they make, where tp splits it: dims that are blocked together. */
function widths(model: Job['model'], tp: number): Cut[][] {
  const cut = (name: string, size: number, ways = tp): Cut => ({ name, size, ways, by: `tp ${ways}` })
  const whole = (name: string, size: number): Cut => cut(name, size, 1)
  const shared = model.family === 'llama' ? model.moe?.shared : undefined
  const ofFeedForward = [[cut('ffn', model.ffn)], ...(shared ? [[cut('moe.shared', shared)]] : [])]
  if (model.family === 'mlp') return ofFeedForward
  const { heads, kvHeads } = model
  const mla = model.family === 'llama' ? model.mla : undefined
  const headDim = model.family === 'llama' ? model.headDim : model.embed / heads
  const { tp: split } = headSplit(tp, 1, kvHeads)
  const depths = mla ? [mla.qkNopeHeadDim, mla.qkRopeHeadDim, mla.vHeadDim] : [headDim]
  const ofHeads = depths.flatMap(depth => [
    [cut('kvHeads', kvHeads, split.kvHeads), cut('group', heads / kvHeads, split.group), whole('headDim', depth)],
    [cut('kvHeads', kvHeads, split.kvHeads), whole('headDim', depth)],
  ])
  return [...ofFeedForward, ...ofHeads]
}
