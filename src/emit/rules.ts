/**
 * *emit*: what each instruction is in PyTorch. Ops work by dim name; here names become places, once, so that the
 * emitted line is what somebody would have written by hand. What these lines mean is runtime/ops.py.
 */
import { type Axis, type Dim, type Dropout, elementFacts, opFacts } from '../base/index.js'
import type { Buffer, Collective, Compute, DType, Group, Instr, InstrOf, Ref, Rules } from '../ir/index.js'
import { number, quote } from './python.js'
import { type Norm, normalised } from './scales.js'

/** A segment as its lines see it. */
export interface Site {
  buffer(ref: Ref): Buffer
  dims(ref: Ref): readonly Dim[]
  /** The variable that holds what `ref` names now; and the one its next value goes to. */
  name(ref: Ref): string
  result(ref: Ref): string
  wrote(ref: Ref): void
  /** Lives from step to step. */
  resident(ref: Ref): boolean
  /** What the segment rounds it to, in place. */
  rounded(ref: Ref): Ref | undefined
  /** What follows the zero is an accumulate: it need not add. */
  overwritten(ref: Ref): boolean
  /** Nobody reads it after this instruction, which writes `out`: it may be overwritten. */
  consumed(ref: Ref, by: Instr, out: Ref): boolean
  /** The variable that holds what a norm multiplies its rows by, and the line that works it out if none has yet. */
  scale(norm: Norm, options: Options): { readonly name: string; readonly lines: readonly string[] }
  /** Expressions: where the rank's part of the whole tensor begins along a dim; how long the dim is over all ranks. */
  first(ref: Ref, dim: Dim): string
  whole(ref: Ref, dim: Dim): number
  along(axes: readonly Axis[]): string
  group(group: Group): string
}

/** Something this emitter does not know how to write; no plan of the compiler's needs it. */
export class Unwritten extends Error {}

/** 'dp+tp', and for the ranks of some pipeline coordinates only 'dp@0.3'. */
export const groupLabel = ({ axes, stages }: Group): string =>
  `${axes.join('+')}${stages ? `@${stages.join('.')}` : ''}`

const has = (dims: readonly Dim[], name: string): boolean => dims.some(dim => dim.name === name)
const placeOf = (dims: readonly Dim[], name: string): number => dims.findIndex(dim => dim.name === name)
const namesIn = (dims: readonly Dim[]): string => dims.map(({ name }) => name).join(' ')
const tuple = (items: readonly (string | number)[]): string =>
  items.length === 1 ? `(${items[0]},)` : `(${items.join(', ')})`

const usual: Readonly<Record<string, string>> = {
  batch: 'b',
  seq: 's',
  embed: 'e',
  heads: 'h',
  kvHeads: 'k',
  group: 'g',
  headDim: 'd',
  ffn: 'f',
  vocab: 'v',
  expert: 'x',
}

/** A letter per dim name, the usual one where it is free. */
function lettersOf(operands: readonly (readonly Dim[])[]): (dims: readonly Dim[]) => string {
  const names = [...new Set(operands.flat().map(({ name }) => name))]
  const letters = new Map<string, string>()
  const free = [...'abcdefghijklmnopqrstuvwxyz']
  for (const name of names) if (usual[name]) letters.set(name, usual[name])
  for (const name of names)
    if (!letters.has(name))
      letters.set(
        name,
        free.find(letter => ![...letters.values()].includes(letter) && !Object.values(usual).includes(letter))!,
      )
  return dims => dims.map(({ name }) => letters.get(name)!).join(' ')
}

/** An operand as it must stand to be combined, element by element, with a result of dims `out`. */
function aligned(site: Site, ref: Ref, out: readonly Dim[]): string {
  const dims = site.dims(ref)
  const name = site.name(ref)
  const places = dims.map(dim => placeOf(out, dim.name))
  if (places.includes(-1)) throw new Unwritten(`[${namesIn(dims)}] does not fit in [${namesIn(out)}]`)
  const sorted = places.map((place, from) => [place, from]).sort(([a], [b]) => a - b)
  const turned = sorted.every(([, from], i) => from === i) ? '' : `.permute${tuple(sorted.map(([, from]) => from))}`
  const missing = out.map((dim, i) => (has(dims, dim.name) ? ':' : i < Math.min(...places, out.length) ? '' : 'None'))
  // Leading dims are broadcast without being asked.
  const index = missing.filter(item => item !== '')
  return `${name}${turned}${index.includes('None') ? `[${index.join(', ')}]` : ''}`
}

/** The dtype the line gives to result i. */
function dtypeOf(site: Site, { kind, ins }: Compute, i: number): DType {
  const { wide, like } = opFacts[kind]
  if (wide !== undefined && i >= wide) return 'f32'
  const dtypes = ins.map(ref => site.buffer(ref).dtype)
  if (like !== undefined) return dtypes[like]
  // What PyTorch makes of the operands.
  const reals = dtypes.filter(dtype => elementFacts[dtype].real)
  return reals.find(dtype => dtype === 'f32') ?? reals[0] ?? 'f32'
}

/** `outs = expression`, and where the program wants another precision than the line gives, that. */
function assign(site: Site, instr: Compute, expression: string): string[] {
  const { outs } = instr
  const cast = (ref: Ref, value: string) => `ops.cast(${value}, ${quote(site.buffer(ref).dtype)})`
  const casts = outs.filter((ref, i) => site.buffer(ref).dtype !== dtypeOf(site, instr, i))
  const names = outs.map(site.result)
  if (outs.length === 1) return [`${names[0]} = ${casts.length > 0 ? cast(outs[0], expression) : expression}`]
  return [
    `${names.join(', ')} = ${expression}`,
    ...casts.map(ref => `${site.result(ref)} = ${cast(ref, site.result(ref))}`),
  ]
}

export type Options = Readonly<Record<string, string | number | boolean | undefined>>

const literal = (value: string | number | boolean): string =>
  typeof value === 'string' ? value : typeof value === 'number' ? number(value) : value ? 'True' : 'False'

/** `ops.name(operands, option=value)`; strings are expressions. */
export const call = (name: string, operands: readonly string[], options: Options = {}): string => {
  const named = Object.entries(options).flatMap(([key, value]) =>
    value === undefined ? [] : [`${key}=${literal(value)}`],
  )
  return `ops.${name}(${[...operands, ...named].join(', ')})`
}

/** Op of whole rows: every operand in the order its signature says. */
const op =
  (name: string, options: (instr: Compute, site: Site) => Options = () => ({})) =>
  (instr: Compute, site: Site): string[] =>
    assign(site, instr, call(name, instr.ins.map(site.name), options(instr, site)))

const elementwise =
  (name: string, options: (instr: Compute) => Options = () => ({})) =>
  (instr: Compute, site: Site): string[] => {
    const out = site.dims(instr.outs[0])
    const ins = instr.ins.map(ref => aligned(site, ref, out))
    return assign(site, instr, call(name, ins, options(instr)))
  }

/** The dims that are normalised must be the last ones. Says how many they are, where it is not one. */
function rows(x: readonly Dim[], gain: readonly Dim[]): Options {
  if (namesIn(x.slice(x.length - gain.length)) !== namesIn(gain))
    throw new Unwritten(`[${namesIn(gain)}] are not the last of [${namesIn(x)}]`)
  return gain.length === 1 ? {} : { dims: gain.length }
}

function inOrder(dims: readonly Dim[], expected: readonly Dim[], what: string): void {
  if (namesIn(dims) !== namesIn(expected))
    throw new Unwritten(`${what} is [${namesIn(dims)}], not [${namesIn(expected)}]`)
}

/** Of the one dim a table or logits have more than their labels: where this rank's part begins, if it is a part. */
function ownedFrom(site: Site, ref: Ref, others: readonly Dim[]): Options {
  const owned = site.dims(ref).filter(({ name }) => !has(others, name))
  if (owned.length !== 1) throw new Unwritten(`one dim of [${namesIn(site.dims(ref))}] must be owned in parts`)
  const first = site.first(ref, owned[0])
  return { first: first === '0' ? undefined : first }
}

const seqFirst = (site: Site, ref: Ref): string | undefined => {
  const seq = site.dims(ref).find(({ name }) => name === 'seq')
  const first = seq ? site.first(ref, seq) : '0'
  return first === '0' ? undefined : first
}

/** `here.chance(key, starts, sizes, wholes)`: a number per element by its index in the whole tensor. */
function chance(site: Site, { key }: Dropout, parts: readonly (readonly [Ref, Dim])[]): string {
  const starts = parts.map(([ref, dim]) => site.first(ref, dim))
  const sizes = parts.map(([, dim]) => dim.size)
  const wholes = parts.map(([ref, dim]) => site.whole(ref, dim))
  return `here.chance(${quote(key)}, ${tuple(starts)}, ${tuple(sizes)}, ${tuple(wholes)})`
}

const attentionDims = ['batch', 'seq', 'kvHeads', 'group', 'headDim'] as const

function attentionOptions(instr: InstrOf<'attention' | 'attentionGrad'>, site: Site): Options {
  const [q, k] = instr.kind === 'attention' ? instr.ins : instr.ins.slice(1)
  if (namesIn(site.dims(q)) !== attentionDims.join(' ')) throw new Unwritten(`queries of [${namesIn(site.dims(q))}]`)
  const dim = (ref: Ref, name: string): readonly [Ref, Dim] => [ref, site.dims(ref).find(dim => dim.name === name)!]
  const scores = [dim(q, 'batch'), dim(q, 'kvHeads'), dim(q, 'group'), dim(q, 'seq'), dim(k, 'seq')]
  return {
    window: instr.window,
    query_first: seqFirst(site, q),
    key_first: seqFirst(site, k),
    ...(instr.dropout && { dropout: instr.dropout.rate, chance: chance(site, instr.dropout, scores) }),
  }
}

function collective(name: string, options: (x: Ref, site: Site) => string[]) {
  return (instr: Collective, site: Site): string[] => {
    if (instr.ins.length > 1) throw new Unwritten(`${instr.kind} of ${instr.ins.length} tensors`)
    const [x] = instr.ins
    const operands = [site.name(x), site.group(instr.group), ...options(x, site)]
    return [`${site.result(instr.outs[0])} = here.${name}(${operands.join(', ')})`]
  }
}

const dimOf = (site: Site, ref: Ref, name: string): string => `dim=${placeOf(site.dims(ref), name)}`

const sizesOf = (site: Site, ref: Ref): string => tuple(site.dims(ref).map(({ size }) => size))

/** A part of a line has no dims to be aligned by. */
const isFlat = (site: Site, ref: Ref): boolean => site.buffer(ref).layout.flat !== undefined

const eps = (instr: Compute): Options => ('eps' in instr ? { eps: instr.eps } : {})
const approximate = (instr: Compute): Options => ('approximate' in instr ? { approximate: instr.approximate } : {})
const clipped = (clip: number, norm: string): Options =>
  clip > 0 ? { scale: `here.clip(${number(clip)}, ${norm})` } : {}

/** The parameter that is kept in less precision than the optimizer keeps it: written in the same pass over memory. */
function rounds(site: Site, { outs: [param] }: InstrOf<'adamw' | 'sgd'>): Options {
  const rounded = site.rounded(param)
  return rounded === undefined ? {} : { rounded: site.name(rounded) }
}

/** An RMS norm or a gradient of one: its operands, then the scale of its rows. */
function scaled(name: string, instr: Norm, site: Site, gain: readonly Dim[]): string[] {
  const dims = rows(site.dims(normalised(instr)), gain)
  const scale = site.scale(instr, { eps: instr.eps, ...dims })
  const options = instr.kind === 'rmsNormWeightGrad' ? dims : {}
  return [...scale.lines, ...assign(site, instr, call(name, [...instr.ins.map(site.name), scale.name], options))]
}

/** By 1 it is a copy, in another precision. */
export const isRounding = (instr: Instr): instr is InstrOf<'scale'> => instr.kind === 'scale' && instr.by === 1

export const torchOf: Rules<string[], Site> = {
  contract(instr, site) {
    const [a, b, out] = [...instr.ins, instr.outs[0]].map(site.dims)
    const letters = lettersOf([a, b, out])
    const equation = quote(`${letters(a)}, ${letters(b)} -> ${letters(out)}`)
    const { dtype } = site.buffer(instr.outs[0])
    const named = dtype === dtypeOf(site, instr, 0) ? {} : { dtype: quote(dtype) }
    return [`${site.result(instr.outs[0])} = ${call('contract', [equation, ...instr.ins.map(site.name)], named)}`]
  },
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
      return [`${site.result(out)} = ops.copy(${x}, ${quote(site.buffer(out).dtype)})`]
    }
    return assign(site, instr, `${x} * ${number(instr.by)}`)
  },
  sumTo(instr, site) {
    const [out] = instr.outs
    if (site.buffer(out).dtype === dtypeOf(site, instr, 0)) return assign(site, instr, folded(instr, site, 'sum'))
    return [`${site.result(out)} = ${folded(instr, site, 'sum', x => `ops.wide(${x})`)}`]
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
  rope(instr, site) {
    const [x] = instr.ins
    inOrder(site.dims(instr.outs[0]), site.dims(x), 'the result')
    const options = { theta: instr.theta, first: seqFirst(site, x), inverse: instr.inverse || undefined }
    return assign(site, instr, call('rope', [site.name(x)], options))
  },
  attention: (instr, site) =>
    assign(
      site,
      { ...instr, outs: instr.outs },
      call('attention', instr.ins.map(site.name), attentionOptions(instr, site)),
    ),
  attentionGrad: (instr, site) =>
    assign(site, instr, call('attention_grad', instr.ins.map(site.name), attentionOptions(instr, site))),
  dropout(instr, site) {
    const [out] = instr.outs
    const parts = site.dims(out).map(dim => [out, dim] as const)
    const x = aligned(site, instr.ins[0], site.dims(out))
    return assign(site, instr, call('dropout', [x, number(instr.dropout.rate), chance(site, instr.dropout, parts)]))
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
    return op('pick', () => ownedFrom(site, instr.ins[0], site.dims(instr.ins[1])))(instr, site)
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
  zero(instr, site) {
    const [out] = instr.outs
    if (site.overwritten(out)) return [`${site.result(out)} = ops.nothing(${site.name(out)})`]
    if (site.resident(out)) return [`${site.result(out)} = ops.zero_(${site.name(out)})`]
    const sizes = tuple(site.dims(out).map(({ size }) => size))
    return [`${site.result(out)} = here.zeros(${sizes}, ${quote(site.buffer(out).dtype)})`]
  },
  accumulate(instr, site) {
    const [out] = instr.outs
    const value = isFlat(site, out) ? site.name(instr.ins[0]) : aligned(site, instr.ins[0], site.dims(out))
    return [`${site.result(out)} = ops.accumulate_(${site.name(out)}, ${value})`]
  },
  sumSquares(instr, site) {
    const [out] = instr.outs
    const line = `${site.result(out)} = ops.add_squares_(${site.name(out)}, ${site.name(instr.ins[0])})`
    if (instr.once.length === 0) return [line]
    // Ranks that hold the same numbers count them once.
    return [`if ${site.along(instr.once as readonly Axis[])} == 0:`, `    ${line}`]
  },
  adamw(instr, site) {
    const [grad, norm, lr, step] = instr.ins.map(site.name)
    const [param, m, v] = instr.outs.map(site.name)
    const { beta1, beta2, weightDecay, clip } = instr
    const options = {
      lr,
      step,
      betas: tuple([beta1, beta2]),
      eps: instr.eps,
      decay: weightDecay,
      ...clipped(clip, norm),
      ...rounds(site, instr),
    }
    return [`${instr.outs.map(site.result).join(', ')} = ${call('adamw_', [param, m, v, grad], options)}`]
  },
  sgd(instr, site) {
    const [grad, norm, lr] = instr.ins.map(site.name)
    const [param, m] = instr.outs.map(site.name)
    const { momentum, weightDecay, clip } = instr
    const options = {
      lr,
      momentum: m === undefined ? undefined : momentum,
      decay: weightDecay,
      ...clipped(clip, norm),
      ...rounds(site, instr),
    }
    const results = instr.outs.map(site.result)
    return [
      `${results.join(', ')} = ${call('sgd_', [param, m ?? 'None', grad], options)}${m === undefined ? '[0]' : ''}`,
    ]
  },
  'all-reduce'(instr, site) {
    // A value nobody reads any more need not be copied before it is summed into.
    const name = site.consumed(instr.ins[0], instr, instr.outs[0]) ? 'all_reduce_' : 'all_reduce'
    return collective(name, () => (instr.combine === 'max' ? ['"max"'] : []))(instr, site)
  },
  'all-gather'(instr, site) {
    const { dim } = instr
    return dim === undefined
      ? collective('gather_line', () => [sizesOf(site, instr.outs[0])])(instr, site)
      : collective('all_gather', x => [dimOf(site, x, dim)])(instr, site)
  },
  'reduce-scatter'(instr, site) {
    const { dim } = instr
    return dim === undefined
      ? collective('scatter_line', () => [])(instr, site)
      : collective('reduce_scatter', x => [dimOf(site, x, dim)])(instr, site)
  },
  'all-to-all'({ from, to, ...instr }, site) {
    const place = (x: Ref, dim: string) => placeOf(site.dims(x), dim)
    return collective('all_to_all', x => [`cut=${place(x, to)}`, `lay=${place(x, from)}`])({ ...instr, from, to }, site)
  },
  wait: ({ on }, site) => [`${site.result(on)} = here.wait(${site.result(on)})`],
  slice({ in: x, out, axes, dim }, site) {
    const operands = [site.name(x), ...axes.map(quote), ...(dim === undefined ? [] : [dimOf(site, x, dim)])]
    return [`${site.result(out)} = here.${dim === undefined ? 'part_of_line' : 'part'}(${operands.join(', ')})`]
  },
  load(instr, site) {
    const dims = site.dims(instr.out)
    if (dims.length === 0) return [`${site.result(instr.out)} = here.load(${quote(instr.input)})`]
    const { dtype } = site.buffer(instr.out)
    const starts = tuple(dims.map(dim => site.first(instr.out, dim)))
    const operands = [quote(instr.input), starts, tuple(dims.map(({ size }) => size)), quote(dtype)]
    return [`${site.result(instr.out)} = here.load(${operands.join(', ')})`]
  },
}

function folded(
  { ins: [x], outs: [out] }: Compute,
  site: Site,
  how: 'sum' | 'amax',
  as: (x: string) => string = x => x,
): string {
  const [dims, kept] = [site.dims(x), site.dims(out)]
  const gone = dims.flatMap((dim, i) => (has(kept, dim.name) ? [] : [i]))
  const rest = dims.filter(dim => has(kept, dim.name))
  const turned = namesIn(rest) === namesIn(kept) ? '' : `.permute${tuple(kept.map(dim => placeOf(rest, dim.name)))}`
  const name = as(site.name(x))
  return gone.length === 0 ? `${name}.clone()` : `${name}.${how}(${gone.length === 1 ? gone[0] : tuple(gone)})${turned}`
}

/** Logits are the tokens' dims, then the classes. */
function classesLast(site: Site, logits: Ref, tokens: Ref): void {
  inOrder(site.dims(logits).slice(0, -1), site.dims(tokens), 'logits but their classes')
}
