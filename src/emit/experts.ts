/** MoE ops in PyTorch: runtime/moe.py, and the all-to-all between ranks, runtime/moe_dispatch.py. */
import { elementsOf, sizeOfAll, splitOf } from '../base/index.js'
import type { Compute, InstrOf, Program, Ref } from '../ir/index.js'
import {
  aligned,
  assign,
  call,
  elementwise,
  has,
  namesIn,
  ordered,
  type Site,
  tuple,
  Unwritten,
  verdict,
} from './expressions.js'
import { number, quote } from './python.js'

/** The tokens' dims in order, then what each of them has. */
function perToken(site: Site, ref: Ref, along: 'candidate' | 'choice'): void {
  const dims = namesIn(site.dims(ref))
  if (dims !== `batch seq ${along}`) throw new Unwritten(`[${dims}], not [batch seq ${along}]`)
}

const size = (site: Site, ref: Ref, name: string): number => site.dims(ref).find(dim => dim.name === name)?.size ?? 1

/** Whether choices have tensors apart, or share their token's. */
const apart = (site: Site, ref: Ref): boolean => has(site.dims(ref), 'choice')

const line = (site: Site, outs: readonly Ref[], expression: string): string[] => [
  `${outs.map(site.result).join(', ')} = ${expression}`,
]

const scoring =
  (name: string) =>
  (instr: InstrOf<'scores' | 'scoresGrad'>, site: Site): string[] =>
    assign(site, instr, call(name, instr.ins.map(site.name), { by: quote(instr.by) }))

const balancing =
  (name: string) =>
  (instr: InstrOf<'balanceLoss' | 'balanceLossGrad'>, site: Site): string[] => {
    const [scores, counts, ...scale] = instr.ins
    const operands = [site.name(scores), aligned(site, counts, site.dims(scores)), ...scale.map(site.name)]
    return assign(site, instr, call(name, operands, { by: instr.by, normalize: instr.shares }))
  }

const plain =
  (name: string, options: (instr: Compute) => Parameters<typeof call>[2] = () => ({})) =>
  (instr: Compute, site: Site): string[] =>
    assign(site, instr, call(name, instr.ins.map(site.name), options(instr)))

const by = (instr: Compute) => ('by' in instr && typeof instr.by === 'number' ? { by: instr.by } : {})

export const expertRules = {
  sigmoid: elementwise('sigmoid'),
  sigmoidGrad: elementwise('sigmoid_grad'),
  scores: scoring('scores'),
  scoresGrad: scoring('scores_grad'),
  topK({ ins: [scores, bias], outs, groups }: InstrOf<'topK'>, site: Site) {
    perToken(site, scores, 'candidate')
    const limits = groups && tuple([groups.groups, groups.chosenGroups])
    const options = { bias: bias === undefined ? undefined : site.name(bias), groups: limits }
    const [choice] = outs
    const [batch, seq] = site.dims(choice)
    const where = [site.first(choice, batch), site.first(choice, seq)].join(', ')
    return [
      ...line(site, outs, call('top_k', [site.name(scores), String(size(site, choice, 'choice'))], options)),
      `if ctx.records_routing: ctx.record_routing(${site.result(choice)}, ${where})`,
    ]
  },
  chosen: plain('routing_weights', instr => weighing(instr as InstrOf<'chosen'>)),
  chosenGrad: plain('routing_weights_grad', instr => weighing(instr as InstrOf<'chosen'>)),
  assign({ ins: [scores, choice, order], outs, room, tokens, ...op }: InstrOf<'assign'>, site: Site) {
    perToken(site, choice, 'choice')
    const options = { capacity: room, tokens, by: quote(op.order), token_order: order && ordered(site, order) }
    return line(site, outs, call('apply_capacity', [scores, choice].map(site.name), options))
  },
  rowsOf({ ins: [choice], outs, guarded }: InstrOf<'rowsOf'>, site: Site) {
    perToken(site, choice, 'choice')
    const [, from, counts] = outs
    const [expert] = site.dims(counts)
    const options = {
      num_experts: site.whole(counts, expert),
      num_local: expert.size,
      first: site.first(counts, expert),
    }
    const room = size(site, from, 'row')
    const rows = line(site, outs, call('dispatch_indices', [site.name(choice)], { ...options, capacity: room }))
    // Who has all experts has room for all rows.
    if (!guarded || options.num_local === options.num_experts) return rows
    const even = (elementsOf(site.dims(choice)) * options.num_local) / options.num_experts
    return [...rows, `ctx.check_capacity(${site.result(counts)}, ${room}, balanced=${number(even)})`]
  },
  dispatch({ ins: [x, to, from], outs }: InstrOf<'dispatch'>, site: Site) {
    const options = { top_k: size(site, to, 'choice'), per_expert: apart(site, x) }
    return line(site, outs, call('permute_tokens', [site.name(x), site.name(from)], options))
  },
  combine({ ins: [rows, to], outs }: InstrOf<'combine'>, site: Site) {
    return line(
      site,
      outs,
      call('unpermute_tokens', [site.name(rows), site.name(to)], { per_expert: apart(site, outs[0]) }),
    )
  },
  expertContract(instr: InstrOf<'expertContract'>, site: Site) {
    const [rows, , w] = instr.ins
    const transposed = site.dims(rows)[1].name === site.dims(w)[2].name
    const options = { transposed: transposed || undefined }
    return assign(site, instr, call('grouped_gemm', instr.ins.map(site.name), options))
  },
  expertWeightGrad(instr: InstrOf<'expertWeightGrad'>, site: Site) {
    const value = call('grouped_gemm_weight_grad', instr.ins.map(site.name))
    return line(site, instr.outs, `ops.cast(${value}, ${quote(site.buffer(instr.outs[0]).dtype)})`)
  },
  weightedSwiglu: plain('weighted_swiglu'),
  weightedSwigluGrad: plain('weighted_swiglu_grad'),
  countChoices({ ins: [choice], outs }: InstrOf<'countChoices'>, site: Site) {
    const operands = [site.name(choice), String(size(site, outs[0], 'candidate')), 'ctx.dtypes["f32"]']
    return line(site, outs, call('expert_histogram', operands))
  },
  countTop({ ins: [scores], outs, chosen }: InstrOf<'countTop'>, site: Site) {
    perToken(site, scores, 'candidate')
    const summed = site.dims(scores).flatMap((dim, i) => (has(site.dims(outs[0]), dim.name) ? [] : [i]))
    return line(site, outs, call('topk_histogram', [site.name(scores), String(chosen), tuple(summed)]))
  },
  balanceLoss: balancing('balance_loss'),
  balanceLossGrad: balancing('balance_loss_grad'),
  zLoss: plain('z_loss', by),
  zLossGrad: plain('z_loss_grad', by),
  balance({ ins: [counts, norm], outs: [bias], rate, mean, ...guard }: InstrOf<'balance'>, site: Site) {
    const operands = [site.name(bias), site.name(counts), verdict(guard, site.name(norm))]
    return line(site, [bias], call('update_router_bias_', operands, { rate, mean }))
  },
}

const weighing = ({ normalise, scale }: InstrOf<'chosen'>) => ({ normalize: normalise, scale })

/**
 * MoE all-to-all: `ctx.dispatch(x, expert_rows, group, capacity, per_expert)`. `max_tokens` is the maximum that one rank can
 * have for another, where there is room for that of all of them.
 */
export function moved(instr: InstrOf<'all-dispatch' | 'all-combine'>, site: Site): string[] {
  const [x, to, , counts] = instr.ins
  const [out] = instr.outs
  const dispatches = instr.kind === 'all-dispatch'
  const [tokens, rows] = dispatches ? [x, out] : [out, x]
  const room = size(site, rows, 'row')
  const [chosen, own] = [size(site, to, 'choice'), size(site, counts, 'expert')]
  const most = (elementsOf(site.dims(to)) / chosen) * Math.min(chosen, own)
  const operands = [
    ...[site.name(x), site.name(to), site.group(instr.group)],
    ...(dispatches ? [room] : []),
    `per_expert=${apart(site, tokens) ? 'True' : 'False'}`,
    ...(room === most * site.ranks(instr.group.axes) ? [`max_tokens=${most}`] : []),
  ]
  return line(site, [out], `ctx.${dispatches ? 'dispatch' : 'combine'}(${operands.join(', ')})`)
}

/** Whether a rank may get more rows than it has room for. */
/** Whether experts are chosen: not where choices are repeated. */
export const chooses = ({ segments }: Program): boolean =>
  Object.values(segments).some(({ instrs }) => instrs.some(({ kind }) => kind === 'topK'))

export const isGuarded = ({ mesh, segments }: Program): boolean =>
  Object.values(segments).some(({ instrs, buffers }) =>
    instrs.some(
      instr =>
        instr.kind === 'rowsOf' &&
        instr.guarded &&
        sizeOfAll(mesh, splitOf(buffers[instr.outs[2]].layout, 'expert')) > 1,
    ),
  )
