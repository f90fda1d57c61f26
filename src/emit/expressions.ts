/** Expressions of PyTorch that the lines of several instructions share: names of dims become places, once. */
import {
  type Axis,
  type Dim,
  type Dropout,
  elementFacts,
  type Guard,
  type OptimizerKind,
  opFacts,
  optimizerFacts,
  type RopeScaling,
  ropeScalingNumbers,
  scalarsOf,
  statesOf,
} from '../base/index.js'
import {
  type Buffer,
  type Collective,
  type Compute,
  type DType,
  type Group,
  type Instr,
  type InstrOf,
  pairsOf,
  type Ref,
} from '../ir/index.js'
import { type Norm, normalizedRows } from './norm-scales.js'
import { number, quote, snakeCase } from './python.js'

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
  /** All results of the collective whose first result it is. */
  finished(ref: Ref): readonly Ref[]
  /** Nobody reads it after this instruction, which writes `out`: it may be overwritten. */
  consumed(ref: Ref, by: Instr, out: Ref): boolean
  /** The variable that holds what a norm multiplies its rows by, and the line that works it out if none has yet. */
  scale(norm: Norm, options: Options): { readonly name: string; readonly lines: readonly string[] }
  /** The variable that holds codes whose first few dims come last, and the line that turns them if none has yet. */
  turned(ref: Ref, first: number): { readonly name: string; readonly lines: readonly string[] }
  /** Expressions: where the rank's part of the whole tensor begins along a dim; how long the dim is over all ranks. */
  first(ref: Ref, dim: Dim): string
  /** The same, from where the microbatch begins. */
  firstInMicrobatch(ref: Ref, dim: Dim): string
  /** The batch of a microbatch, over all ranks. */
  perMicrobatch(ref: Ref, batch: Dim): number
  whole(ref: Ref, dim: Dim): number
  along(axes: readonly Axis[]): string
  /** How many of these axes, from the first on, cut the dim in zigzag. */
  zigzag(axes: readonly Axis[], dim: string): number
  ranks(axes: readonly Axis[]): number
  group(group: Group): string
}

/** Something this emitter does not know how to write; no plan of the compiler's needs it. */
export class Unwritten extends Error {}

/** 'dp+tp', and for the ranks of some pipeline coordinates only 'dp@0.3'. */
export const groupLabel = ({ axes, stages }: Group): string =>
  `${axes.join('+')}${stages ? `@${stages.join('.')}` : ''}`

export const has = (dims: readonly Dim[], name: string): boolean => dims.some(dim => dim.name === name)
export const placeOf = (dims: readonly Dim[], name: string): number => dims.findIndex(dim => dim.name === name)
export const namesIn = (dims: readonly Dim[]): string => dims.map(({ name }) => name).join(' ')
export const tuple = (items: readonly (string | number)[]): string =>
  items.length === 1 ? `(${items[0]},)` : `(${items.join(', ')})`

export const usual: Readonly<Record<string, string>> = {
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
  /** Parameters side by side. */
  joined: 'n',
}

/** A letter per dim name, the usual one where it is free. */
export function lettersOf(operands: readonly (readonly Dim[])[]): (dims: readonly Dim[]) => string {
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
export function aligned(site: Site, ref: Ref, out: readonly Dim[]): string {
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
export function dtypeOf(site: Site, { kind, ins }: Compute, i: number): DType {
  const { wide, like } = opFacts[kind]
  if (wide !== undefined && i >= wide) return 'f32'
  const dtypes = ins.map(ref => site.buffer(ref).dtype)
  if (like !== undefined) return dtypes[like]
  // What PyTorch makes of the operands.
  const reals = dtypes.filter(dtype => elementFacts[dtype].real)
  return reals.find(dtype => dtype === 'f32') ?? reals[0] ?? 'f32'
}

/** `outs = expression`, and where the program wants another precision than the line gives, that. */
export function assign(site: Site, instr: Compute, expression: string): string[] {
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

export const literal = (value: string | number | boolean): string =>
  typeof value === 'string' ? value : typeof value === 'number' ? number(value) : value ? 'True' : 'False'

/** `ops.name(operands, option=value)`; strings are expressions. */
export const call = (name: string, operands: readonly string[], options: Options = {}): string => {
  const named = Object.entries(options).flatMap(([key, value]) =>
    value === undefined ? [] : [`${key}=${literal(value)}`],
  )
  return `ops.${name}(${[...operands, ...named].join(', ')})`
}

/** Op of whole rows: every operand in the order its signature says. */
export const op =
  (name: string, options: (instr: Compute, site: Site) => Options = () => ({})) =>
  (instr: Compute, site: Site): string[] =>
    assign(site, instr, call(name, instr.ins.map(site.name), options(instr, site)))

export const elementwise =
  (name: string, options: (instr: Compute) => Options = () => ({})) =>
  (instr: Compute, site: Site): string[] => {
    const out = site.dims(instr.outs[0])
    const ins = instr.ins.map(ref => aligned(site, ref, out))
    return assign(site, instr, call(name, ins, options(instr)))
  }

/** The dims that are normalised must be the last ones. Says how many they are, where it is not one. */
export function rows(x: readonly Dim[], gain: readonly Dim[]): Options {
  if (namesIn(x.slice(x.length - gain.length)) !== namesIn(gain))
    throw new Unwritten(`[${namesIn(gain)}] are not the last of [${namesIn(x)}]`)
  return gain.length === 1 ? {} : { dims: gain.length }
}

export function inOrder(dims: readonly Dim[], expected: readonly Dim[], what: string): void {
  if (namesIn(dims) !== namesIn(expected))
    throw new Unwritten(`${what} is [${namesIn(dims)}], not [${namesIn(expected)}]`)
}

/** Where this rank's part of the vocabulary begins, if it is a part: the one dim that a table or logits have and their labels do not. */
export function ownedFrom(site: Site, ref: Ref, others: readonly Dim[]): Options {
  const owned = site.dims(ref).filter(({ name }) => !has(others, name))
  if (owned.length !== 1) throw new Unwritten(`one dim of [${namesIn(site.dims(ref))}] must be owned in parts`)
  const first = site.first(ref, owned[0])
  return { first: first === '0' ? undefined : first }
}

export const seqFirst = (site: Site, ref: Ref): string | undefined => {
  const seq = site.dims(ref).find(({ name }) => name === 'seq')
  const first = seq ? site.first(ref, seq) : '0'
  return first === '0' ? undefined : first
}

/** Where tokens stand in their documents: [batch seq], as the tokens themselves begin. */
function placed(site: Site, positions: Ref, tokens: Ref): string {
  inOrder(site.dims(positions), site.dims(tokens).slice(0, 2), 'positions')
  return site.name(positions)
}

/** The same, and how many places there may be. */
function places(site: Site, positions: Ref | undefined, tokens: Ref): Options {
  if (positions === undefined) return {}
  const [, seq] = site.dims(tokens)
  return { doc_positions: placed(site, positions, tokens), length: site.whole(tokens, seq) }
}

/** `("llama3", 8, 1, 4, 8192)`: the kind and its numbers. */
const ropeScaling = ({ kind, ...numbers }: RopeScaling): string =>
  tuple([quote(kind), ...ropeScalingNumbers[kind].map(of => number(numbers[of as never]))]) // each kind has its own

export const ropeOptions = ({ ins: [x, positions], ...rope }: InstrOf<'rope'>, site: Site): Options => ({
  ...{ theta: rope.theta, scaling: rope.scaling && ropeScaling(rope.scaling) },
  ...{ first: positions === undefined ? seqFirst(site, x) : undefined, inverse: rope.inverse || undefined },
  ...places(site, positions, x),
})

/** `ctx.dropout_mask(rate, key, starts, sizes, wholes)`: what is left, by its index in the whole tensor. */
export function dropoutMask(
  site: Site,
  { rate, key }: Dropout,
  parts: readonly (readonly [Ref, Dim])[],
  order?: Ref,
): string {
  const along = parts.flatMap(([, { name }], i) => (name === 'seq' ? [i] : []))
  const lying = order === undefined ? '' : `, token_order=${ordered(site, order)}, permuted_dims=${tuple(along)}`
  if (parts.some(([, { name }], i) => name === 'batch' && i > 0))
    throw new Unwritten('dropout: batch is not the first dim')
  const [batch] = parts
  const starts = parts.map(([ref, dim]) => site.firstInMicrobatch(ref, dim))
  const each = batch[1].name === 'batch' ? `, batch=${site.perMicrobatch(...batch)}` : ''
  const sizes = parts.map(([, dim]) => dim.size)
  const wholes = parts.map(([ref, dim]) => site.whole(ref, dim))
  return `ctx.dropout_mask(${number(rate)}, ${quote(key)}, ${tuple(starts)}, ${tuple(sizes)}, ${tuple(wholes)}${lying}${each})`
}

/** A part of a join with a place for every dim of the whole but the last, along which they are joined. */
function partOfJoin(site: Site, part: Ref, whole: readonly Dim[]): string {
  const [rows, own] = [whole.slice(0, -1), site.dims(part).slice(0, -1)]
  const kept = rows.filter(dim => has(own, dim.name))
  if (namesIn(kept) !== namesIn(own)) throw new Unwritten(`[${namesIn(own)}] does not fit in [${namesIn(rows)}]`)
  const index = rows.map(dim => (has(own, dim.name) ? ':' : 'None'))
  return `${site.name(part)}${index.includes('None') ? `[${index.join(', ')}]` : ''}`
}

export const joined = ({ ins, outs: [out] }: Compute, site: Site): string =>
  call(
    'cat_broadcast',
    ins.map(ref => partOfJoin(site, ref, site.dims(out))),
  )

/** The widths of the parts, and for each the places of the dims it lacks. */
export function unjoined({ ins: [dout], outs }: Compute, site: Site): string {
  const rows = site.dims(dout).slice(0, -1)
  const parts = outs.map(ref => site.dims(ref))
  const lacking = parts.map(dims => rows.flatMap((dim, i) => (has(dims, dim.name) ? [] : [i])))
  const sums = lacking.some(places => places.length > 0) ? { sum_dims: tuple(lacking.map(tuple)) } : {}
  return call('cat_broadcast_grad', [site.name(dout), tuple(parts.map(dims => dims.at(-1)?.size ?? 0))], sums)
}

export const attentionDims = ['batch', 'seq', 'kvHeads', 'group', 'headDim'] as const

export function attentionOptions(instr: InstrOf<'attention' | 'attentionGrad'>, site: Site): Options {
  const [q, k] = instr.kind === 'attention' ? instr.ins : instr.ins.slice(1)
  const [positions, order] = instr.ins.slice(instr.kind === 'attention' ? 3 : 6)
  if (namesIn(site.dims(q)) !== attentionDims.join(' ')) throw new Unwritten(`queries of [${namesIn(site.dims(q))}]`)
  const dim = (ref: Ref, name: string): readonly [Ref, Dim] => [ref, site.dims(ref).find(dim => dim.name === name)!]
  const scores = [dim(q, 'batch'), dim(q, 'kvHeads'), dim(q, 'group'), dim(q, 'seq'), dim(k, 'seq')]
  return {
    scale: instr.scale,
    window: instr.window,
    query_first: seqFirst(site, q),
    key_first: seqFirst(site, k),
    doc_positions: positions && placed(site, positions, q),
    token_order: order && ordered(site, order),
    ...(instr.dropout && { dropout: instr.dropout.rate, keep_mask: dropoutMask(site, instr.dropout, scores, order) }),
  }
}

/** The token at each slot: [batch slot]. */
export function ordered(site: Site, order: Ref): string {
  if (namesIn(site.dims(order)) !== 'batch slot') throw new Unwritten(`an order of [${namesIn(site.dims(order))}]`)
  return site.name(order)
}

export function collective(name: string, options: (x: Ref, out: Ref) => string[]) {
  return (instr: Collective, site: Site): string[] =>
    // Those of several tensors are all on their way before anybody waits for them.
    pairsOf(instr).map(pair => {
      const operands = [site.name(pair.in), site.group(instr.group), ...options(pair.in, pair.out)]
      return `${site.result(pair.out)} = ctx.${name}(${operands.join(', ')})`
    })
}

/** Of a collective over these axes along a dim that is cut in zigzag: how many members share what one rank of it holds. */
export const zigzagged = (site: Site, axes: readonly Axis[], dim: string): string[] =>
  site.zigzag(axes, dim) > 0 ? [`zigzag=${site.ranks(axes.slice(site.zigzag(axes, dim)))}`] : []

export const dimOf = (site: Site, ref: Ref, name: string): string => `dim=${placeOf(site.dims(ref), name)}`

export const sizesOf = (site: Site, ref: Ref): string => tuple(site.dims(ref).map(({ size }) => size))

/** A part of a line has no dims to be aligned by. */
export const isFlat = (site: Site, ref: Ref): boolean => site.buffer(ref).layout.flat !== undefined

export const eps = (instr: Compute): Options => ('eps' in instr ? { eps: instr.eps } : {})
export const approximate = (instr: Compute): Options =>
  'approximate' in instr ? { approximate: instr.approximate } : {}
export const clipped = (clip: number, norm: string): Options =>
  clip > 0 ? { scale: `ctx.clip_coef(${number(clip)}, ${norm})` } : {}

/** Whether the step is taken: a number on the device, which nobody waits for. */
export const verdict = ({ limit }: Guard, norm: string): string =>
  `ctx.should_apply(${norm}${limit === undefined ? '' : `, ${number(limit)}`})`

/** `param, m = ops.lion_(param, m, grad, verdict=..., lr=..., ...)`: what it updates, the gradient, then what it is told. */
export function update(instr: InstrOf<OptimizerKind>, site: Site, settings: Options): string[] {
  const optional: object = optimizerFacts[instr.kind].optional ?? {}
  const [grad, ...numbers] = instr.ins.map(site.name)
  const { given: more = [] } = optimizerFacts[instr.kind]
  const names = [...scalarsOf(instr), ...more]
  const given = Object.fromEntries(names.map((name, i) => [argumentNames[name] ?? snakeCase(name), numbers[i]]))
  const [param, ...held] = instr.outs.map(site.name)
  const states = statesOf(instr).map((state, i) => [state, held[i]] as const)
  const [some, always] = [true, false].map(is => states.filter(([state]) => state in optional === is))
  const { norm_squared: norm, lr, ...others } = given
  const { rate = 1, clip, weightDecay: decay } = instr
  const told = { apply: verdict(instr, norm), lr: rate === 1 ? lr : `${lr} * ${number(rate)}`, ...others }
  const options = {
    ...Object.fromEntries(some.map(([state, name]) => [argumentNames[state] ?? state, name])),
    ...told,
    ...settings,
    weight_decay: decay,
    ...clipped(clip, norm),
    ...rounds(site, instr.outs[0]),
    ...(instr.stochastic && { rounding_bits: 'ctx.rounding_bits' }),
  }
  const updated = call(`${instr.kind}_`, [param, ...always.map(([, held]) => held), grad], options)
  return [`${instr.outs.map(site.result).join(', ')} = ${updated}`]
}

/** Arguments of optimizers whose names in Python are not those of the program. */
const argumentNames: Readonly<Record<string, string>> = { taken: 'applied_steps', top: 'max_v' }

/** The parameter that is kept in less precision than the optimizer keeps it: written in the same pass over memory. */
function rounds(site: Site, param: Ref): Options {
  const rounded = site.rounded(param)
  return rounded === undefined ? {} : { model_param: site.name(rounded) }
}

/** An RMS norm or a gradient of one: its operands, then the scale of its rows. */
export function scaled(name: string, instr: Norm, site: Site, gain: readonly Dim[]): string[] {
  const dims = rows(site.dims(normalizedRows(instr)), gain)
  const scale = site.scale(instr, { eps: instr.eps, ...dims })
  const options = instr.kind === 'rmsNormWeightGrad' ? dims : {}
  const [out] = instr.outs
  if (instr.kind === 'rmsNorm' && scale.lines.length > 0 && site.buffer(out).dtype === dtypeOf(site, instr, 0)) {
    const both = call('rms_norm_and_scale', instr.ins.map(site.name), { eps: instr.eps, ...dims })
    return [`${site.result(out)}, ${scale.name} = ${both}`]
  }
  return [...scale.lines, ...assign(site, instr, call(name, [...instr.ins.map(site.name), scale.name], options))]
}

/** Scaling by 1 is a copy in another precision. */
export const isRounding = (instr: Instr): instr is InstrOf<'scale'> => instr.kind === 'scale' && instr.by === 1

export function folded(
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
export function classesLast(site: Site, logits: Ref, tokens: Ref): void {
  inOrder(site.dims(logits).slice(0, -1), site.dims(tokens), 'logits but their classes')
}
