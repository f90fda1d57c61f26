/** The lines of fused matmuls: one GEMM where the program has one per parameter. */
import type { Dim } from '../base/index.js'
import { type Instr, type InstrOf, type Ref, type Segment, traitsOf } from '../ir/index.js'
import { call, dtypeOf, lettersOf, type Options, ropeOptions, type Site, tuple } from './expressions.js'
import { type FusedMatmuls, isPassing } from './fused-matmuls.js'
import { quote } from './python.js'
import type { Usage } from './usage.js'

export type Lines = (site: Site) => string[]

export interface FusedLines {
  /** Lines of an instruction in place of its own. */
  readonly lines: ReadonlyMap<Instr, Lines>
  /** Fused arguments and results, by the first of them; and the others. */
  readonly names: ReadonlyMap<Ref, string>
  readonly within: ReadonlySet<Ref>
}

const elements = (dims: readonly Dim[]): number => dims.reduce((total, { size }) => total * size, 1)

/** The concatenated dim of fused parameters. */
export const fusedDims = (widths: readonly (readonly Dim[])[]): Dim[] => [
  { name: 'joined', size: widths.map(elements).reduce((a, b) => a + b, 0) },
]

export function fusedLines(segment: Segment, usage: Usage, uses: readonly FusedMatmuls[]): FusedLines {
  const taken = new Set(usage.names.values())
  const all = uses.map(use => linesOfUse(segment, usage, use, freeNames(usage.names, taken)))
  const firsts = uses.flatMap(({ params, grads }, i) =>
    [params, grads].filter(({ length }) => length > 0).map(refs => [refs[0], all[i].nameOf(refs)] as const),
  )
  return {
    lines: new Map(all.flatMap(({ lines }) => [...lines])),
    names: new Map(firsts),
    within: new Set(uses.flatMap(({ params, grads }) => [...params.slice(1), ...grads.slice(1)])),
  }
}

/** `attn_q`, `attn_k`, `attn_v`: attn_q_k_v. The same refs have the same name. */
function freeNames(names: Usage['names'], taken: Set<string>): (refs: readonly Ref[]) => string {
  const known = new Map<string, string>()
  return refs => {
    const key = refs.join()
    const found = known.get(key)
    if (found !== undefined) return found
    const words = refs.map(ref => names.get(ref)!)
    const stem = (words[0].match(/.*_/)?.[0] ?? '').split('_').slice(0, -1)
    const common = stem.filter((_, i) => words.every(word => word.startsWith(`${stem.slice(0, i + 1).join('_')}_`)))
    const skip = common.length === 0 ? 0 : common.join('_').length + 1
    const wish = [words[0], ...words.slice(1).map(word => word.slice(skip))].join('_')
    let name = wish
    for (let n = 2; taken.has(name); n++) name = `${wish}_${n}`
    taken.add(name)
    known.set(key, name)
    return name
  }
}

/** Residual additions, done by the GEMM whose result is added. */
export function residualLines(segment: Segment): Replaced {
  const { instrs, buffers } = segment
  const read = new Read(() => '')
  const makers = new Map(instrs.flatMap(instr => traitsOf(instr).writes.map(ref => [ref, instr] as const)))
  const like = (ref: Ref) => JSON.stringify([buffers[ref].dtype, buffers[ref].dims.map(({ name }) => name)])
  const found: [Instr, Lines][] = []
  for (const sum of instrs) {
    if (sum.kind !== 'add' || sum.ins.length !== 2 || sum.ins.some(ref => like(ref) !== like(sum.outs[0]))) continue
    const made = sum.ins.find(ref => makers.get(ref)?.kind === 'contract' && isPassing(segment, ref))
    const product = made === undefined ? undefined : makers.get(made)
    if (product?.kind !== 'contract') continue
    const [plus] = sum.ins.filter(ref => ref !== made)
    const write: Lines = site => {
      const dims = [...product.ins, sum.outs[0]].map(site.dims)
      const line = contracted(
        site,
        product,
        dims,
        product.ins.map(ref => read.name(ref)),
        { add: site.name(plus) },
      )
      return [`${site.result(sum.outs[0])} = ${line}`]
    }
    found.push([product, read.reading(...product.ins)], [sum, write])
  }
  return found
}

type NameOf = (refs: readonly Ref[]) => string
type Replaced = readonly (readonly [Instr, Lines])[]

function linesOfUse(segment: Segment, usage: Usage, use: FusedMatmuls, nameOf: NameOf) {
  const read = new Read(nameOf)
  const lines = [
    ...forwardLines(segment, usage, use, nameOf),
    ...swigluGradLines(segment, usage, use, nameOf, read),
    ...rotatedLines(segment, usage, use, nameOf, read),
    ...inputLines(use, nameOf, read),
    ...(use.sum ? weightLines(segment, use, nameOf, read) : gradientLines(segment, use, nameOf, read)),
  ]
  return { lines, nameOf }
}

/** What variables were called where the program reads them, and which of them have been laid side by side. */
class Read {
  readonly #names = new Map<Ref, string>()
  readonly #laid = new Set<string>()
  readonly #others = new Map<string, Lines>()
  readonly #nameOf: NameOf
  constructor(nameOf: NameOf) {
    this.#nameOf = nameOf
  }

  readonly reading =
    (...refs: readonly Ref[]): Lines =>
    site => {
      for (const ref of refs) this.#names.set(ref, site.name(ref))
      return []
    }

  name(ref: Ref): string {
    return this.#names.get(ref)!
  }

  /** They lie side by side already. */
  made(refs: readonly Ref[]): void {
    this.#laid.add(this.#nameOf(refs))
  }

  /** They are laid in another way than as they are. */
  laying(refs: readonly Ref[], lines: Lines): void {
    this.#others.set(this.#nameOf(refs), lines)
  }

  /** Side by side behind the first `after` dims. */
  laid(site: Site, refs: readonly Ref[], after: number): string[] {
    const name = this.#nameOf(refs)
    if (this.#laid.has(name)) return []
    this.#laid.add(name)
    const others = this.#others.get(name)
    if (others) return others(site)
    return [
      `${name} = ${call(
        'cat',
        refs.map(ref => this.name(ref)),
        { start_dim: after },
      )}`,
    ]
  }
}

/** `ops.einsum` of operands with these dims, in the precision that `like` has. */
function contracted(
  site: Site,
  like: InstrOf<'contract'>,
  dims: readonly (readonly Dim[])[],
  operands: readonly string[],
  options: Options = {},
): string {
  const [a, b, out] = dims.map(lettersOf(dims))
  const { dtype } = site.buffer(like.outs[0])
  const named = dtype === dtypeOf(site, like, 0) ? {} : { dtype: quote(dtype) }
  return call('einsum', [quote(`${a}, ${b} -> ${out}`), ...operands], { ...named, ...options })
}

const nothing: Lines = () => []

/** The dims of a value that are not the width of its parameter. */
const leading = (site: Site, ref: Ref, [width]: FusedMatmuls['widths']): Dim[] =>
  site.dims(ref).slice(0, site.dims(ref).length - width.length)

function forwardLines(segment: Segment, usage: Usage, use: FusedMatmuls, nameOf: NameOf): Replaced {
  const { instrs, buffers } = segment
  const { forward, params, rows, widths } = use
  const first = instrs.find(instr => forward.some(one => one === instr))
  const outs = forward.map(({ outs: [out] }) => out)
  const outlives = outs.map(ref => !usage.temporary[buffers[ref].role])
  const ropes = rotatedTogether(segment, outs)
  const write: Lines = site => {
    const [x] = forward[0].ins
    const joined = fusedDims(widths)
    const dims = [site.dims(x), [...rows, ...joined], [...leading(site, outs[0], widths), ...joined]]
    const sizes = widths.map(width => tuple(width.map(({ size }) => size)))
    const product = `${nameOf(outs)} = ${contracted(site, forward[0], dims, [site.name(x), nameOf(params)])}`
    if (ropes.length > 0) {
      const results = outs.map((ref, i) => site.result(ropes[i]?.outs[0] ?? ref))
      const operands = [nameOf(outs), tuple(sizes), String(ropes.length)]
      return [product, `${results.join(', ')} = ${call('split_rotary', operands, ropeOptions(ropes[0], site))}`]
    }
    const names = outs.map(site.result)
    // A part that stays would keep all of them: alone it is copied.
    const copies = outlives.every(kept => kept) ? [] : names.filter((_, i) => outlives[i])
    return [
      product,
      `${names.join(', ')} = ${call('split', [nameOf(outs), ...sizes])}`,
      ...copies.map(name => `${name} = ${name}.contiguous()`),
    ]
  }
  return [
    ...forward.map(instr => [instr, instr === first ? write : nothing] as const),
    ...ropes.map(rope => [rope, nothing] as const),
  ]
}

/** The turns of the first few parts, where they are all alike and attention alone reads what they and the others become. */
function rotatedTogether(segment: Segment, outs: readonly Ref[]): readonly InstrOf<'rope'>[] {
  const { instrs } = segment
  const ropes = outs.flatMap(ref => {
    const rope = instrs.find(instr => instr.kind === 'rope' && instr.ins[0] === ref)
    return rope?.kind === 'rope' && isPassing(segment, ref) ? [rope] : []
  })
  const how = (rope: InstrOf<'rope'>) => JSON.stringify({ ...rope, ins: rope.ins.slice(1), outs: [] })
  const isFirst = ropes.every((rope, i) => rope.ins[0] === outs[i])
  const made = outs.map((ref, i) => ropes[i]?.outs[0] ?? ref)
  const isForAttention = made.every(ref =>
    instrs.filter(instr => traitsOf(instr).reads.includes(ref)).every(({ kind }) => kind === 'attention'),
  )
  return isFirst && isForAttention && new Set(ropes.map(how)).size === 1 ? ropes : []
}

/** Gradients of a gate and what it lets pass, where they are wanted side by side, are made so. */
function swigluGradLines(segment: Segment, usage: Usage, use: FusedMatmuls, nameOf: NameOf, read: Read): Replaced {
  const { instrs, buffers } = segment
  const slopes = (use.sum ? use.input : []).map(({ ins: [dy] }) => dy)
  const made = instrs.find(instr => instr.kind === 'swigluGrad' && instr.outs.join() === slopes.join())
  if (made?.kind !== 'swigluGrad') return []
  const shape = (ref: Ref) => JSON.stringify([buffers[ref].dtype, buffers[ref].dims])
  if (![...made.ins, ...made.outs].every(ref => shape(ref) === shape(made.ins[0]))) return []
  const joint = new Set<Instr>([...use.input, ...use.weights])
  const isRead = (ref: Ref) => instrs.some(instr => !joint.has(instr) && traitsOf(instr).reads.includes(ref))
  const isAlone = slopes.some(ref => isRead(ref) || !usage.temporary[buffers[ref].role])
  const later = inWritingOrder(segment)
  const again = later
    .slice(later.indexOf(made))
    .find(instr => instr.kind === 'swiglu' && instr.ins.join() === made.ins.slice(1).join())
  const write: Lines = site => {
    read.made(slopes)
    const sizes = use.widths.map(width => tuple(width.map(({ size }) => size)))
    const parts = `${slopes.map(site.result).join(', ')} = ${call('split', [nameOf(slopes), ...sizes])}`
    const operands = made.ins.map(site.name)
    const line =
      again?.kind === 'swiglu'
        ? `${nameOf(slopes)}, ${site.result(again.outs[0])} = ${call('swiglu_and_grad_cat', operands)}`
        : `${nameOf(slopes)} = ${call('swiglu_grad_cat', operands)}`
    return [line, ...(isAlone ? [parts] : [])]
  }
  return [[made, write], ...(again ? [[again, nothing] as const] : [])]
}

/** Gradients of queries and keys are turned back where they are laid beside that of values. */
function rotatedLines(segment: Segment, usage: Usage, use: FusedMatmuls, nameOf: NameOf, read: Read): Replaced {
  const { instrs, buffers } = segment
  const slopes = (use.sum ? use.input : []).map(({ ins: [dy] }) => dy)
  const joint = new Set<Instr>([...use.input, ...use.weights])
  const isPassing = (ref: Ref) =>
    usage.temporary[buffers[ref].role] &&
    instrs.every(instr => joint.has(instr) || !traitsOf(instr).reads.includes(ref))
  const ropes = slopes.map(ref =>
    instrs.find(instr => instr.kind === 'rope' && instr.outs[0] === ref && isPassing(ref)),
  )
  const found = ropes.flatMap(rope => (rope?.kind === 'rope' ? [rope] : []))
  const how = (rope: InstrOf<'rope'>) => JSON.stringify({ ...rope, ins: rope.ins.slice(1), outs: [] })
  if (found.length === 0 || new Set(found.map(how)).size > 1) return []
  const laid: Lines = site => {
    const parts = slopes.map(ref => read.name(found.find(({ outs: [out] }) => out === ref)?.ins[0] ?? ref))
    const turned = ropes.map(rope => (rope ? 'True' : 'False'))
    const options = ropeOptions(found[0], site)
    return [`${nameOf(slopes)} = ${call('rotary_cat', [tuple(parts), tuple(turned)], options)}`]
  }
  read.laying(slopes, laid)
  return found.map(rope => [rope, read.reading(rope.ins[0])] as const)
}

/**
 * The instructions of a backward pass in the order in which they are written: where a gated product is computed again, it waits for
 * its own gradient, since one pass over memory makes both; and so does what it is needed for.
 */
export function inWritingOrder({ instrs }: Segment): readonly Instr[] {
  const slope = instrs.find(instr => instr.kind === 'swigluGrad')
  const again = instrs.find(instr => instr.kind === 'swiglu')
  if (slope?.kind !== 'swigluGrad' || again?.kind !== 'swiglu' || again.ins.join() !== slope.ins.slice(1).join())
    return instrs
  const late = new Set<Instr>([again])
  const waiting = new Set<Ref>(again.outs)
  const [from, to] = [instrs.indexOf(again), instrs.indexOf(slope)]
  if (from > to) return instrs
  for (const instr of instrs.slice(from + 1, to)) {
    const { reads, writes, starts } = traitsOf(instr)
    if (!reads.some(ref => waiting.has(ref))) continue
    if (starts) return instrs
    late.add(instr)
    for (const ref of writes) waiting.add(ref)
  }
  const { reads } = traitsOf(slope)
  if (reads.some(ref => waiting.has(ref))) return instrs
  const between = instrs.slice(from, to).filter(instr => !late.has(instr))
  return [...instrs.slice(0, from), ...between, slope, ...late, ...instrs.slice(to + 1)]
}

/** The gradient of the operand, where the program sums it up. */
function inputLines({ input, sum, params, rows, widths }: FusedMatmuls, nameOf: NameOf, read: Read): Replaced {
  if (!sum) return []
  const slopes = input.map(({ ins: [dy] }) => dy)
  const write: Lines = site => {
    const [m, joined] = [leading(site, slopes[0], widths), fusedDims(widths)]
    const dims = [
      [...m, ...joined],
      [...rows, ...joined],
      [...m, ...rows],
    ]
    const product = contracted(site, input[0], dims, [nameOf(slopes), nameOf(params)])
    return [...read.laid(site, slopes, m.length), `${site.result(sum.outs[0])} = ${product}`]
  }
  return [...input.map(instr => [instr, read.reading(instr.ins[0])] as const), [sum, write]]
}

/** The parameters' own gradients from slopes that lie side by side, where the last of them is added up. */
function weightLines(segment: Segment, use: FusedMatmuls, nameOf: NameOf, read: Read): Replaced {
  const { weights, rows, widths } = use
  if (weights.length === 0) return []
  const slopes = weights.map(({ ins: [, dy] }) => dy)
  const outs = weights.map(({ outs: [out] }) => out)
  const [x] = weights[0].ins
  const product: Lines = site => {
    const [m, joined] = [leading(site, slopes[0], widths), fusedDims(widths)]
    const dims = [site.dims(x), [...m, ...joined], [...rows, ...joined]]
    const made = contracted(site, weights[0], dims, [read.name(x), nameOf(slopes)])
    return [...read.laid(site, slopes, m.length), `${nameOf(outs)} = ${made}`]
  }
  const reads = weights.map(instr => [instr, read.reading(x, instr.ins[1])] as const)
  return [...reads, ...accumulated(segment, use, nameOf, product)]
}

/** The same from slopes apart: to lay gradients side by side is less than to lay these. */
function gradientLines(segment: Segment, use: FusedMatmuls, nameOf: NameOf, read: Read): Replaced {
  const outs = use.weights.map(({ outs: [out] }) => out)
  if (outs.length === 0) return []
  return accumulated(segment, use, nameOf, site => {
    read.reading(...outs)(site)
    return read.laid(site, outs, use.rows.length)
  })
}

function accumulated(
  { instrs }: Segment,
  { weights, accumulates, grads }: FusedMatmuls,
  nameOf: NameOf,
  make: Lines,
): Replaced {
  const last = instrs.findLast(instr => accumulates.some(one => one === instr))
  const made = nameOf(weights.map(({ outs: [out] }) => out))
  const total = `${nameOf(grads)} = ${call('accumulate_', [nameOf(grads), made])}`
  return accumulates.map(instr => [instr, instr === last ? site => [...make(site), total] : nothing] as const)
}
