/**
 * The line of PyTorch of each instruction. Ops of the program have named dims; here names become dim indices, so that the
 * generated line is what one would write by hand. runtime/ops.py implements what these lines call.
 */
import { type Axis, scalerNumbers, shapeOfMatrix } from '../base/index.js'
import type { InstrOf, Ref, Rules } from '../ir/index.js'
import { compressionRules } from './compression.js'
import { expertRules, moved } from './experts.js'
import {
  aligned,
  approximate,
  assign,
  attentionOptions,
  call,
  classesLast,
  clipped,
  collective,
  dimOf,
  dropoutMask,
  dtypeOf,
  elementwise,
  eps,
  folded,
  inOrder,
  isFlat,
  joined,
  lettersOf,
  type Options,
  op,
  ownedFrom,
  placeOf,
  ropeOptions,
  rows,
  type Site,
  scaled,
  sizesOf,
  tuple,
  Unwritten,
  unjoined,
  update,
  verdict,
  zigzagged,
} from './expressions.js'
import { absMax, quantize, scaledContract, scaledExpertContract, scaledExpertWeightGrad, track } from './fp8.js'
import { number, quote } from './python.js'
import { topkRules } from './topk.js'

/** Numbers of scalers whose names mean something else in Python, or there. */
const scalerWords: Readonly<Record<string, string>> = {
  growth: 'growth_factor',
  backoff: 'backoff_factor',
  interval: 'growth_interval',
  hysteresis: 'max_hysteresis',
  min: 'min_scale',
}

export const torchOf: Rules<string[], Site> = {
  contract(instr, site) {
    const [a, b, out] = [...instr.ins, instr.outs[0]].map(site.dims)
    const letters = lettersOf([a, b, out])
    const equation = quote(`${letters(a)}, ${letters(b)} -> ${letters(out)}`)
    const { dtype } = site.buffer(instr.outs[0])
    const named = dtype === dtypeOf(site, instr, 0) ? {} : { dtype: quote(dtype) }
    return [`${site.result(instr.outs[0])} = ${call('einsum', [equation, ...instr.ins.map(site.name)], named)}`]
  },
  absMax,
  quantize,
  scaledContract,
  scaledExpertContract,
  scaledExpertWeightGrad,
  track,
  add(instr, site) {
    const out = site.dims(instr.outs[0])
    return assign(site, instr, instr.ins.map(ref => aligned(site, ref, out)).join(' + '))
  },
  mul(instr, site) {
    const out = site.dims(instr.outs[0])
    return assign(site, instr, instr.ins.map(ref => aligned(site, ref, out)).join(' * '))
  },
  scale(instr, site) {
    const [out] = instr.outs
    const x = isFlat(site, out) ? site.name(instr.ins[0]) : aligned(site, instr.ins[0], site.dims(out))
    if (instr.by === 1) {
      // The optimizer has done it.
      if (site.rounded(instr.ins[0]) === out) return []
      // A part lies inside the whole.
      if (site.buffer(out).inside) return [`${site.name(out)}.copy_(${x})`]
      return [`${site.result(out)} = ops.copy(${x}, ${quote(site.buffer(out).dtype)})`]
    }
    return assign(site, instr, `${x} * ${number(instr.by)}`)
  },
  sumTo(instr, site) {
    const [out] = instr.outs
    if (site.buffer(out).dtype === dtypeOf(site, instr, 0)) return assign(site, instr, folded(instr, site, 'sum'))
    return [`${site.result(out)} = ${folded(instr, site, 'sum', x => `ops.upcast(${x})`)}`]
  },
  maxOver: (instr, site) => assign(site, instr, folded(instr, site, 'amax')),
  gelu: elementwise('gelu', approximate),
  geluGrad: elementwise('gelu_grad', approximate),
  swiglu: elementwise('swiglu'),
  swigluGrad: elementwise('swiglu_grad'),
  layerNorm: op('layer_norm', (instr, site) => ({
    ...eps(instr),
    ...rows(site.dims(instr.ins[0]), site.dims(instr.ins[1])),
  })),
  layerNormInputGrad: op('layer_norm_input_grad', (instr, site) => ({
    ...eps(instr),
    ...rows(site.dims(instr.ins[1]), site.dims(instr.ins[2])),
  })),
  layerNormWeightGrad: op('layer_norm_weight_grad', (instr, site) => ({
    ...eps(instr),
    ...rows(site.dims(instr.ins[1]), site.dims(instr.outs[0])),
  })),
  rmsNorm: (instr, site) => scaled('rms_norm', instr, site, site.dims(instr.ins[1])),
  rmsNormInputGrad: (instr, site) => scaled('rms_norm_input_grad', instr, site, site.dims(instr.ins[2])),
  rmsNormWeightGrad: (instr, site) => scaled('rms_norm_weight_grad', instr, site, site.dims(instr.outs[0])),
  join: (instr, site) => assign(site, instr, joined(instr, site)),
  joinGrad: (instr, site) => assign(site, instr, unjoined(instr, site)),
  rope(instr, site) {
    const [x] = instr.ins
    inOrder(site.dims(instr.outs[0]), site.dims(x), 'the result')
    return assign(site, instr, call('rope', [site.name(x)], ropeOptions(instr, site)))
  },
  attention: (instr, site) => {
    const [operands, options] = [instr.ins.slice(0, 3).map(site.name), attentionOptions(instr, site)]
    return assign(site, { ...instr, outs: instr.outs }, call('attention', operands, options))
  },
  attentionGrad(instr, site) {
    const [operands, options] = [instr.ins.slice(0, 6).map(site.name), attentionOptions(instr, site)]
    return assign(site, instr, call('attention_grad', operands, options))
  },
  attentionMerge: op('attention_merge'),
  dropout(instr, site) {
    const [out] = instr.outs
    const parts = site.dims(out).map(dim => [out, dim] as const)
    const x = aligned(site, instr.ins[0], site.dims(out))
    const kept = dropoutMask(site, instr.dropout, parts, instr.ins[1])
    return assign(site, instr, call('dropout', [x, number(instr.dropout.rate), kept]))
  },
  embed(instr, site) {
    const [ids, table] = instr.ins.map(site.dims)
    inOrder(site.dims(instr.outs[0]), [...ids, ...table.slice(1)], 'what is looked up')
    return op('embed', () => ownedFrom(site, instr.ins[1], site.dims(instr.outs[0])))(instr, site)
  },
  embedGrad(instr, site) {
    const [ids, dout] = instr.ins.map(site.dims)
    const [table] = instr.outs
    inOrder(dout, [...ids, ...site.dims(table).slice(1)], 'the gradient')
    const options = { rows: site.dims(table)[0].size, ...ownedFrom(site, table, dout) }
    return assign(site, instr, call('embed_grad', instr.ins.map(site.name), options))
  },
  sumExp(instr, site) {
    classesLast(site, instr.ins[0], instr.outs[0])
    return op('sum_exp')(instr, site)
  },
  pick(instr, site) {
    classesLast(site, instr.ins[0], instr.ins[1])
    return op('target_logit', () => ownedFrom(site, instr.ins[0], site.dims(instr.ins[1])))(instr, site)
  },
  tokenLoss: op('token_loss'),
  tokenLossGrad(instr, site) {
    const [logits, , , labels] = instr.ins
    classesLast(site, logits, labels)
    return op('token_loss_grad', () => ownedFrom(site, logits, site.dims(labels)))(instr, site)
  },
  countLabels: (instr, site) => [`${site.result(instr.outs[0])} = ${call('count_labels', instr.ins.map(site.name))}`],
  squaredError: op('squared_error'),
  squaredErrorGrad(instr, site) {
    const out = site.dims(instr.outs[0])
    const [x, target] = instr.ins.map(ref => (site.dims(ref).length === 0 ? site.name(ref) : aligned(site, ref, out)))
    return assign(site, instr, call('squared_error_grad', [x, target, site.name(instr.ins[2])]))
  },
  countElements: (instr, site) => [
    `${site.result(instr.outs[0])} = ${call('count_elements', instr.ins.map(site.name))}`,
  ],
  ...expertRules,
  zero(instr, site) {
    const [out] = instr.outs
    if (site.overwritten(out)) return [`${site.result(out)} = ops.set_to_none(${site.name(out)})`]
    if (site.resident(out)) return [`${site.result(out)} = ops.zero_(${site.name(out)})`]
    const sizes = tuple(site.dims(out).map(({ size }) => size))
    return [`${site.result(out)} = ctx.zeros(${sizes}, ${quote(site.buffer(out).dtype)})`]
  },
  accumulate(instr, site) {
    const [out] = instr.outs
    const value = isFlat(site, out) ? site.name(instr.ins[0]) : aligned(site, instr.ins[0], site.dims(out))
    const name = instr.combine === 'max' ? 'accumulate_max_' : 'accumulate_'
    return [`${site.result(out)} = ops.${name}(${site.name(out)}, ${value})`]
  },
  sumSquares(instr, site) {
    const [out] = instr.outs
    // Ranks that hold the same numbers count them once.
    const counts = instr.once.length === 0 ? '' : `, ${site.along(instr.once as readonly Axis[])} == 0`
    return [`${site.result(out)} = ops.add_squares_(${site.name(out)}, ${site.name(instr.ins[0])}${counts})`]
  },
  ...compressionRules,
  ...topkRules,
  unscale: ({ ins: [scale], outs: [x] }, site) => [
    `${site.result(x)} = ${call('unscale_', [site.name(x), site.name(scale)])}`,
  ],
  weigh: op('mask_above_limit'),
  take(instr, site) {
    const [taken, ...scalars] = instr.outs
    const norm = site.name(instr.ins[0])
    const counted = `${site.result(taken)} = ${call('count_applied_', [site.name(taken), verdict(instr, norm)])}`
    const { scaler } = instr
    if (!scaler) return [counted]
    if (scaler.kind === 'static') return [counted, ...scalars.map(ref => `${site.result(ref)} = ${site.name(ref)}`)]
    const told: Readonly<Record<string, number | string>> = scaler
    const numbers = scalerNumbers[scaler.kind].map(of => [scalerWords[of] ?? of, told[of]])
    const operands = [...scalars.map(site.name), `ctx.should_apply(${norm})`]
    const rescaled = call(`rescale_as_${scaler.kind}_`, operands, Object.fromEntries(numbers))
    return [counted, `${scalars.map(site.result).join(', ')} = ${rescaled}`]
  },
  adamw: (instr, site) =>
    update(instr, site, {
      betas: tuple([instr.beta1, instr.beta2]),
      eps: instr.eps,
      l2: instr.coupled || undefined,
      frozen: instr.frozen || undefined,
    }),
  sgd: (instr, site) =>
    update(instr, site, {
      momentum: instr.outs.length > 1 ? instr.momentum : undefined,
      nesterov: instr.nesterov || undefined,
      dampening: instr.dampening || undefined,
    }),
  lambSquares(instr, site) {
    const { ins, beta1, beta2, eps, weightDecay, clip } = instr
    const [grad, norm, taken, ...held] = ins.map(site.name)
    const options = {
      applied_steps: taken,
      betas: tuple([beta1, beta2]),
      eps,
      weight_decay: weightDecay,
      ...clipped(clip, norm),
    }
    return assign(site, instr, call('lamb_squares', [...held, grad], options))
  },
  lamb: (instr, site) =>
    update(instr, site, {
      betas: tuple([instr.beta1, instr.beta2]),
      eps: instr.eps,
      always_adapt: instr.always || undefined,
    }),
  muonMean(instr, site) {
    const { momentum, nesterov, clip } = instr
    const [grad, norm, m] = instr.ins.map(site.name)
    return assign(site, instr, call('muon_momentum', [m, grad], { momentum, nesterov, ...clipped(clip, norm) }))
  },
  stack: (instr, site) => {
    const places = site.dims(instr.outs[0])[0].size
    return [`${site.result(instr.outs[0])} = ${call('stack', [tuple(instr.ins.map(site.name))], { slots: places })}`]
  },
  unstack({ ins: [x], outs }, site) {
    const sizes = isFlat(site, outs[0]) ? '(-1,)' : sizesOf(site, outs[0])
    const names = outs.map(site.result).join(', ')
    return [`${names}${outs.length > 1 ? '' : ','} = ${call('unstack', [site.name(x), String(outs.length), sizes])}`]
  },
  newtonSchulz(instr, site) {
    if (instr.lines) {
      const { inputs, steps, products, lines } = instr
      const { rows, columns } = shapeOfMatrix(lines.dims, inputs)
      const options = { sizes: tuple(lines.dims.map(({ size }) => size)), blocks: tuple(lines.blocks) }
      const told = { ...options, matrix: tuple([rows, columns]), steps, ...(products === 'bf16' && { bf16: true }) }
      return [`${site.result(instr.outs[0])} = ${call('newton_schulz_flat', [site.name(instr.ins[0])], told)}`]
    }
    const { each, rows, columns } = shapeOfMatrix(site.dims(instr.ins[0]), instr.inputs)
    const sizes = tuple(each > 1 ? [each, rows, columns] : [rows, columns])
    const { steps, products } = instr
    const half = products === 'bf16' ? { bf16: true } : {}
    const line = call('newton_schulz', [site.name(instr.ins[0]), sizes], { steps, ...half })
    return [`${site.result(instr.outs[0])} = ${line}`]
  },
  deduct: ({ ins: [value], outs: [out] }, site) => [
    `${site.result(out)} = ${call('subtract_', [site.name(out), site.name(value)])}`,
  ],
  gramSchmidt(instr, site) {
    const { each, rows, columns } = shapeOfMatrix(site.dims(instr.ins[0]), instr.inputs)
    const [x] = instr.ins
    const sizes = tuple([each, rows, columns])
    // Of the dims only that of experts may be cut.
    const first = `${site.first(x, site.dims(x)[0])} * ${rows * columns}`
    const options = instr.draws ? { initial: `ctx.initial_projection(${sizes}, ${first})` } : {}
    return assign(site, instr, call('gram_schmidt', [site.name(x), sizes], options))
  },
  become(instr, site) {
    const [next, norm] = instr.ins.map(site.name)
    return assign(site, instr, call('copy_if_', [site.name(instr.outs[0]), next], { apply: verdict(instr, norm) }))
  },
  average(instr, site) {
    const [value, norm, taken] = instr.ins.map(site.name)
    const options = { apply: verdict(instr, norm), applied_steps: taken, decay: instr.decay }
    return assign(site, instr, call('ema_update_', [site.name(instr.outs[0]), value], options))
  },
  factorSquares(instr, site) {
    const [grad, norm] = instr.ins.map(site.name)
    const { inputs, rows, columns, clip } = instr
    const options = { ...matrixOf(site, instr.ins[0], inputs), rows, columns, ...clipped(clip, norm) }
    return assign(site, instr, call('factored_squares', [grad], options))
  },
  adafactorSquares(instr, site) {
    const [grad, norm, taken, param, ...held] = instr.ins.map(site.name)
    const { inputs, beta2Decay, eps1, clip } = instr
    const means = inputs === undefined ? ['v'] : [...factorNames, 'row_means', 'column_means', 'mean_square']
    const given = Object.fromEntries(means.map((name, i) => [name, held[i]]))
    const options = {
      applied_steps: taken,
      ...given,
      ...factoring(instr, site),
      beta2_decay: beta2Decay,
      eps1,
      ...clipped(clip, norm),
    }
    return assign(site, instr, call('adafactor_squares', [param, grad], options))
  },
  adafactor(instr, site) {
    const { beta2Decay, eps1, eps2, clipThreshold, elements } = instr
    return update(instr, site, {
      ...factoring(instr, site),
      beta2_decay: beta2Decay,
      eps1,
      eps2,
      clip_threshold: clipThreshold,
      elements,
    })
  },
  muon: (instr, site) => update(instr, site, { momentum: instr.momentum, lr_scale: instr.stretch }),
  lion: (instr, site) => update(instr, site, { betas: tuple([instr.beta1, instr.beta2]) }),
  'all-reduce'(instr, site) {
    const { ins, outs, group, combine } = instr
    if (combine === 'max' && ins.length > 1 && ins.every(ref => site.dims(ref).length === 0))
      return [
        `${outs.map(site.result).join(', ')} = ctx.all_reduce_max(${tuple(ins.map(site.name))}, ${site.group(group)})`,
      ]
    // A value nobody reads any more need not be copied before it is summed into.
    const name = site.consumed(instr.ins[0], instr, instr.outs[0]) ? 'all_reduce_' : 'all_reduce'
    return collective(name, () => (instr.combine === 'max' ? ['"max"'] : []))(instr, site)
  },
  'all-gather'(instr, site) {
    const { dim } = instr
    return dim === undefined
      ? collective('all_gather_flat', (_, out) => [sizesOf(site, out)])(instr, site)
      : collective('all_gather', x => [dimOf(site, x, dim), ...zigzagged(site, instr.group.axes, dim)])(instr, site)
  },
  'reduce-scatter'(instr, site) {
    const { dim } = instr
    return dim === undefined
      ? collective('reduce_scatter_flat', () => [])(instr, site)
      : collective('reduce_scatter', x => [dimOf(site, x, dim), ...zigzagged(site, instr.group.axes, dim)])(instr, site)
  },
  'all-to-all'({ from, to, ...instr }, site) {
    const place = (x: Ref, dim: string) => placeOf(site.dims(x), dim)
    return collective('all_to_all', x => [`split_dim=${place(x, to)}`, `concat_dim=${place(x, from)}`])(
      { ...instr, from, to },
      site,
    )
  },
  shift({ ins, outs, group, by }, site) {
    const operands = [tuple(ins.map(site.name)), site.group(group), number(by)]
    return [`${outs.map(site.result).join(', ')}${outs.length > 1 ? '' : ','} = ctx.ring_shift(${operands.join(', ')})`]
  },
  'all-dispatch': moved,
  move() {
    throw new Unwritten('a move that is not waited for by a tag')
  },
  'all-combine': moved,
  wait: ({ on }, site) => site.finished(on).map(ref => `${site.result(ref)} = ctx.wait(${site.result(ref)})`),
  slice({ in: x, out, axes, dim }, site) {
    const zigzag = dim === undefined ? 0 : site.zigzag(axes, dim)
    const cut = zigzag > 0 ? [`zigzag=${zigzag}`] : []
    const operands = [site.name(x), ...axes.map(quote), ...(dim === undefined ? [] : [dimOf(site, x, dim), ...cut])]
    return [`${site.result(out)} = ctx.${dim === undefined ? 'flat_shard' : 'shard'}(${operands.join(', ')})`]
  },
  load(instr, site) {
    const dims = site.dims(instr.out)
    if (dims.length === 0) return [`${site.result(instr.out)} = ctx.load(${quote(instr.input)})`]
    const { dtype } = site.buffer(instr.out)
    const starts = tuple(dims.map(dim => site.first(instr.out, dim)))
    const operands = [quote(instr.input), starts, tuple(dims.map(({ size }) => size)), quote(dtype)]
    return [`${site.result(instr.out)} = ctx.load(${operands.join(', ')})`]
  },
}

const factorNames = ['rows', 'columns', 'mean']

/** Matrices as this rank's block has them, and where its part of their line begins. */
function matrixOf(site: Site, ref: Ref, inputs: number): Options {
  const { each, rows, columns } = shapeOfMatrix(site.dims(ref), inputs)
  const { flat } = site.buffer(ref).layout
  const axes = flat?.map(axis => `"${axis}"`).join(', ')
  const first = flat && `ctx.coord(${axes}) * ${Math.ceil((each * rows * columns) / site.ranks(flat))}`
  return { sizes: tuple([each, rows, columns]), ...(first && { first }) }
}

const factoring = ({ inputs, ins }: InstrOf<'adafactor' | 'adafactorSquares'>, site: Site): Options =>
  inputs === undefined ? {} : matrixOf(site, ins[0], inputs)
