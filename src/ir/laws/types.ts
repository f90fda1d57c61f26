/**
 * T1 to T3 and T6: layout types. Per mesh axis a buffer is whole, split on a dim (in this order among the axes
 * that split it), a partial sum or a partial max. The type of every result is inferred from the instruction and
 * the types of its operands, and compared with what the buffer declares. A segment is checked once, taking what
 * it reads from its frames as declared; that each call finds it so is T4, where calls are replayed.
 *
 * The pipeline axis has no types: what streams hold is told apart by identity (I), not by layout.
 */
import {
  type Axis,
  type Combine,
  flatAxes,
  isOptimizer,
  type Layout,
  type OpKind,
  type Spoken,
  sameDims,
  sameLayout,
  splitOf,
} from '../../base/index.js'
import { type Compute, type InstrOf, isCollective, isCompute, isFlat, isRouted, pairsOf } from '../instr.js'
import type { Program, Segment } from '../program.js'
import { showShaped } from '../text/codec.js'
import { traitsOf } from '../traits.js'
import { unblocked } from './blocks.js'
import { miscoded } from './codes.js'
import { misstored } from './dtypes.js'
import { factored } from './factors.js'
import type { Finding, Law } from './law.js'
import { loaded, moved, sliced } from './moves.js'
import { blended, coded } from './packing.js'
import { clause, told } from './phrases.js'
import { hasRows, routedTypes } from './routes.js'
import { signatures } from './signatures.js'
import { sparse } from './sparse.js'
import { linesMisread, orthogonal, stacked } from './stacks.js'
import { combines, tracked } from './tracking.js'
import { unfinished, unrolled } from './turns.js'
import {
  axesThatMatter,
  type Case,
  dimsSplitBy,
  isWhole,
  namesOf,
  type Partial,
  type Say,
  type Type,
  typeOf,
} from './type.js'
import { unscaled } from './unscaled.js'
import { everyStep } from './walk.js'

/** Findings of all segments that are called, placed at their first call. */
export function types(program: Program): Finding[] {
  const seen = new Set<string>()
  const findings: Finding[] = []
  for (const { pipeline, at, step } of everyStep(program)) {
    if (step.kind !== 'call' || seen.has(step.segment)) continue
    seen.add(step.segment)
    const found = typeSegment(program, program.segments[step.segment])
    findings.push(...found.map(finding => ({ ...finding, segment: step.segment, pipeline, step: at })))
  }
  return findings
}

export function typeSegment(program: Program, segment: Segment): Finding[] {
  const { mesh } = program
  const declared = (ref: string) => typeOf(mesh, segment.buffers[ref])
  const known = new Map<string, Type>()
  const findings: Finding[] = []
  segment.instrs.forEach((instr, at) => {
    const { reads, writes } = traitsOf(instr)
    if (writes.length === 0) return
    const say = (law: Law, what: Spoken) =>
      findings.push({ law, instr: at, ...told('.instr', { kind: instr.kind, what }) })
    const operands = reads.map(ref => known.get(ref) ?? declared(ref))
    const claimed = writes.map(declared)
    const wrong = isCompute(instr) ? misstored(instr, ref => segment.buffers[ref].dtype) : undefined
    if (wrong) say(wrong.law, wrong.said)
    for (const said of miscoded(segment, instr, at)) say('T7', said)
    for (const said of linesMisread(mesh, segment, instr, at)) say('T1', said)
    const moved = isCollective(instr) ? operands.slice(0, instr.outs.length).map(({ dtype }) => dtype) : []
    const copies = instr.kind === 'all-gather' && isFlat(instr) // parts of lines are bytes to it
    if (new Set(moved).size > 1 && !copies) say('T3', clause('T/operands', { types: { joint: ',', of: moved } }))
    const inferred = infer({ program, instr, operands, claimed, say })
    writes.forEach((ref, i) => {
      if (inferred) compare(ref, inferred[i], claimed[i], say)
      known.set(ref, claimed[i]) // go on with what was declared: one slip, one finding
    })
  })
  return findings
}

function compare(ref: string, inferred: Type, claimed: Type, say: Say): void {
  const show = (type: Type) => `${inferred.dtype === claimed.dtype ? '' : `${type.dtype} `}${showShaped(type)}`
  const says = clause('T/declared', { ref, inferred: show(inferred), claimed: show(claimed) })
  if (!sameLayout(inferred.layout, claimed.layout)) say('T2', says)
  else if (inferred.dtype !== claimed.dtype || !sameDims(inferred.dims, claimed.dims)) say('T3', says)
}

/** The types of the results, or nothing where a finding says why there are none. */
function infer(of: Case): readonly Type[] | undefined {
  const { instr, claimed, program } = of
  if (hasRows(instr)) return sound(of) ? routedTypes({ ...of, instr }) : undefined
  if (isCollective(instr) && !isRouted(instr))
    return allOrNone(pairsOf(instr).map((pair, i) => moved({ ...of, instr, ref: pair.in, x: of.operands[i] })))
  switch (instr.kind) {
    case 'zero':
      return claimed
    case 'load':
      return [loaded(program, instr, claimed[0])]
    case 'slice':
      return allOrNone([sliced({ ...of, instr, ref: instr.in, x: of.operands[0] })])
    case 'sumSquares':
      return squares({ ...of, instr })
    case 'newtonSchulz': {
      const made = computed({ ...of, instr, claimed: claimed.slice(0, 1) })
      return made && orthogonal({ ...of, instr }, made)
    }
    case 'stack':
    case 'unstack':
      return stacked({ ...of, instr })
    case 'lambSquares':
      return squaresInParts({ ...of, instr })
    case 'factorSquares':
    case 'adafactorSquares':
    case 'adafactor':
      return factored({ ...of, instr })
    case 'unscale':
      return unscaled(of)
    case 'pack':
    case 'unpack':
      return coded({ ...of, instr })
    case 'beside':
    case 'greatest':
    case 'scatter':
      return sparse({ ...of, instr })
    case 'blend':
      return blended({ ...of, instr })
    case 'track':
      return tracked({ ...of, instr })
    case 'accumulate':
    case 'deduct':
    case 'balance':
    case 'average':
    case 'become':
      return updated(of)
    default:
      if (isOptimizer(instr)) return updated(of)
      return isCompute(instr) ? computed({ ...of, instr }) : undefined
  }
}

const allOrNone = (types: readonly (Type | undefined)[]): readonly Type[] | undefined =>
  types.every(type => type !== undefined) ? types : undefined

/** Ops over dims by name: contract, add, norms, attention, loss and the like, all by their signature. */
function computed(of: Case<Compute>): readonly Type[] | undefined {
  if (!knowsSlots(of)) return undefined
  const { ins = {}, outs = {} } = signatures[of.instr.kind].renames ?? {}
  const [operands, claimed] = [
    of.operands.map((type, i) => renamed(type, ins[i])),
    of.claimed.map((type, i) => renamed(type, outs[i])),
  ]
  const round = unrolled({ ...of, mesh: of.program.mesh, operands })
  const cut = round && unblocked({ ...of, operands: round.operands })
  const found = cut && bySignature({ ...of, operands: cut.operands, claimed })
  return found?.map((type, i) => renamed(cut!.finish(round!.finish(type, i)), reversed(outs[i])))
}

/** Where documents are cut one by one, which token lies at a slot is data: whoever depends on it is given that, or refused. */
function knowsSlots({ program, instr, say }: Case<Compute>): boolean {
  const { slots } = signatures[instr.kind]
  if (!slots || !program.mesh.zigzag?.documents || instr.ins.length > slots.at) return true
  say('T1', clause('T/untold', { by: slots.by }))
  return false
}

type Names = Readonly<Record<string, string>>

const reversed = (names: Names = {}): Names => Object.fromEntries(Object.entries(names).map(([from, to]) => [to, from]))

function renamed(type: Type, names: Names | undefined): Type {
  if (!names) return type
  const { dims, layout } = type
  const rename = (name: string) => names[name] ?? name
  const splits = Object.entries(layout.splits).map(([name, axes]) => [rename(name), axes] as const)
  return {
    ...type,
    dims: dims.map(dim => ({ ...dim, name: rename(dim.name) })),
    layout: { ...layout, splits: Object.fromEntries(splits) },
  }
}

function bySignature(of: Case<Compute>): readonly Type[] | undefined {
  const { operands, claimed, instr } = of
  if (!shaped(of, instr.kind) || !flatAlike(of)) return undefined
  const known = agreed(of)
  const partials = known && eachAxis(of)
  const { flat } = operands.find(({ layout }) => layout.flat)?.layout ?? {}
  return partials && claimed.map((type, i) => result(type, known, { partial: partials[i], ...(flat && { flat }) }))
}

const dimsOf = ({ dims }: Type) => dims

/** Every result has the dims that its signature gives it. */
function shaped({ operands, claimed, say, instr }: Case, kind: OpKind): boolean {
  const names = operands.map(namesOf)
  const { shapes, sizes } = signatures[kind]
  const misshapen = claimed.findIndex(
    (type, i) => !sameSet((shapes[i] ?? shapes[0])(names, namesOf(type)), namesOf(type)),
  )
  if (misshapen >= 0)
    say('T3', clause('T/dims', { ref: traitsOf(instr).writes[misshapen], dims: namesOf(claimed[misshapen]).join(' ') }))
  const unequal = misshapen < 0 ? sizes?.(operands.map(dimsOf), claimed.map(dimsOf)) : undefined
  if (unequal) say('T3', unequal)
  return misshapen < 0 && !unequal
}

/** What has rows is shaped as its op is, and never flat. */
function sound(of: Case): boolean {
  const { instr, operands, say } = of
  const flat = operands.find(({ layout }) => flatAxes(layout).length > 0)
  if (flat) say('T1', clause('T/no-flat-rows', { type: showShaped(flat) }))
  return (
    !flat &&
    shaped(
      of,
      instr.kind === 'all-dispatch' ? 'dispatch' : instr.kind === 'all-combine' ? 'combine' : (instr as Compute).kind,
    )
  )
}

/** A line has no dims to work along: only elementwise ops take parts of it, all cut alike from lines of one meaning. */
function flatAlike({ operands, claimed, instr, say }: Case<Compute>): boolean {
  const tensors = operands.filter(({ dims }) => dims.length > 0)
  if (!tensors.some(({ layout }) => flatAxes(layout).length > 0)) return true
  const [first] = tensors
  const alike = (type: Type) => sameLine(type, first)
  if (!signatures[instr.kind].flat) say('T1', clause('T/no-flat', { ref: instr.ins[0], type: showShaped(first) }))
  else if (!tensors.every(alike))
    say('T1', clause('T/flat-unlike', { types: { joint: ',', of: tensors.map(showShaped) } }))
  else if (!claimed.every(({ dims }) => sameDims(dims, first.dims))) say('T3', clause('T/flat-dims'))
  else return true
  return false
}

const sameLine = (a: Type, b: Type): boolean =>
  sameDims(a.dims, b.dims) && flatAxes(a.layout).join() === flatAxes(b.layout).join()

const sameSet = (a: readonly string[] | undefined, b: readonly string[]) =>
  a !== undefined && a.length === b.length && new Set(b).size === b.length && a.every(name => b.includes(name))

type KnownDims = ReadonlyMap<string, { readonly size: number; readonly split: readonly Axis[]; readonly ref: string }>

/** Operands that share a dim hold the same part of it. */
function agreed({ operands, instr, say }: Case<Compute>): KnownDims | undefined {
  const known = new Map<string, { size: number; split: readonly Axis[]; ref: string }>()
  for (const [i, { dims, layout }] of operands.entries())
    for (const { name, size } of dims) {
      const split = splitOf(layout, name)
      const other = known.get(name)
      if (!other) known.set(name, { size, split, ref: instr.ins[i] })
      else if (other.split.join() !== split.join() || other.size !== size) {
        const show = (n: number, axes: readonly Axis[]) => `${n}${axes.length > 0 ? `/${axes.join()}` : ''}`
        const [here, there] = [show(size, split), show(other.size, other.split)]
        const said = clause('T/dim', { dim: name, size: there, ref: other.ref, other: here, beside: instr.ins[i] })
        say(other.split.join() === split.join() ? 'T3' : 'T1', said)
        return undefined
      }
    }
  return known
}

/** The partial axes of each result, judged one mesh axis at a time. */
function eachAxis(of: Case<Compute>): readonly Partial[] | undefined {
  const partials: Record<string, Combine>[] = of.claimed.map(() => ({}))
  for (const axis of axesThatMatter(of.program.mesh)) {
    const verdict = oneAxis(of, axis)
    if (verdict === undefined) return undefined
    verdict.forEach((combine, i) => {
      if (combine) partials[i][axis] = combine
    })
  }
  return partials
}

/** For each result: is it partial on this axis, and how? Nothing: a finding says why not. */
function oneAxis(of: Case<Compute>, axis: Axis): readonly (Combine | undefined)[] | undefined {
  const { operands, instr, claimed, say } = of
  const signature = signatures[instr.kind]
  const split = [...new Set(operands.flatMap(({ layout }) => dimsSplitBy(layout, axis)))]
  const partial = operands.flatMap(({ layout }, i) => (layout.partial[axis] ? [i] : []))
  const refuse = (said: Spoken) => void say('T1', said)
  const named = (i: number) => `%${instr.ins[i]}`
  if (split.length > 1) return refuse(clause('T/splits-two', { axis, dims: { joint: 'and', of: split } }))
  if (split.length === 1 && partial.length > 0)
    return refuse(clause('T/splits-partial', { axis, dim: split[0], ref: instr.ins[partial[0]] }))
  const foreign = claimed.flatMap(({ dims, layout }) =>
    dims.filter(d => splitOf(layout, d.name).includes(axis) && !has(operands, d.name)),
  )
  if (foreign.length > 0 && (split.length > 0 || partial.length > 0))
    return refuse(clause('T/splits-result', { axis, dim: foreign[0].name }))
  const stuck = signature.stuck?.(operands.map(namesOf), claimed.map(namesOf)) ?? []
  const torn = [...split, ...foreign.map(({ name }) => name)].find(name => stuck.includes(name))
  if (torn !== undefined) return refuse(clause('T/torn', { dim: torn, axis }))
  if (split.length === 1) {
    const lost = claimed.map(type => !namesOf(type).includes(split[0]))
    if (lost.includes(true) && !signature.reduces) return refuse(clause('T/lost', { dim: split[0], axis }))
    return lost.map(missing => (missing ? signature.reduces : undefined))
  }
  if (partial.length === 0) return claimed.map(() => undefined)
  const combine = operands[partial[0]].layout.partial[axis]
  const passes =
    combine === 'max'
      ? signature.reduces === 'max'
      : signature.jointly
        ? partial.length === operands.length && partial.every(i => operands[i].layout.partial[axis] === 'sum')
        : partial.length === 1 && (signature.linear?.includes(partial[0]) ?? false)
  return passes
    ? claimed.map(() => combine)
    : refuse(clause('T/partial', { refs: { joint: ',', of: partial.map(named) }, combine: `${combine}`, axis }))
}

const has = (operands: readonly Type[], dim: string) => operands.some(type => namesOf(type).includes(dim))

/** The claimed type with sizes and splits from the operands. A dim no operand has is the result's own choice. */
function result(claimed: Type, known: KnownDims, rest: Omit<Layout, 'splits'>): Type {
  const dims = claimed.dims.map(({ name, size }) => ({ name, size: known.get(name)?.size ?? size }))
  const splits = dims.map(({ name }) => [name, known.get(name)?.split ?? splitOf(claimed.layout, name)] as const)
  return { dtype: claimed.dtype, dims, layout: { splits: Object.fromEntries(splits), ...rest } }
}

/** accumulate and the optimizers: every tensor lies as the first one does; the optimizers' scalars are whole. */
function updated({ instr, operands, claimed, say }: Case): readonly Type[] | undefined {
  const [first] = operands
  const { reads } = traitsOf(instr)
  const why = unfinished(first)
  if (why) return void say('T1', clause('T/is-but', { ref: reads[0], type: showShaped(first), why }))
  const alikeTo = (i: number) => {
    if (!sameLayout(operands[i].layout, first.layout) || !sameDims(operands[i].dims, first.dims))
      say(
        'T1',
        clause('T/are', {
          ...{ ref: reads[i], type: showShaped(operands[i]) },
          ...{ other: reads[0], beside: showShaped(first) },
        }),
      )
  }
  const optimizer = instr.kind !== 'accumulate' && instr.kind !== 'deduct'
  if (!combines(instr, first, say)) return undefined
  // What a state becomes may be an addend, if the state is one.
  if (optimizer && instr.kind !== 'become' && Object.keys(first.layout.partial).length > 0)
    return void say('T5', clause('T/gradient', { ref: reads[0], type: showShaped(first) }))
  const { tensors = [] } = isCompute(instr) ? signatures[instr.kind] : {}
  const isScalar = (i: number) => optimizer && isCompute(instr) && i < instr.ins.length && !tensors.includes(i)
  for (let i = 1; i < operands.length; i++)
    if (!isScalar(i)) alikeTo(i)
    else if (operands[i].dims.length > 0 || !sameLayout(operands[i].layout, { splits: {}, partial: {} }))
      say('T1', clause('T/scalar', { ref: reads[i], type: showShaped(operands[i]) }))
  // What they are stored in the letters of the signature say.
  return claimed.map(({ dtype }) => ({ ...first, dtype }))
}

/** Every rank adds up its own part: the sums are partial on the axes that split it. */
function squaresInParts({ program, instr, operands, claimed, say }: Case<InstrOf<'lambSquares'>>) {
  const [grad, norm, taken, ...kept] = operands
  for (const [i, scalar] of [norm, taken].entries())
    if (scalar.dims.length > 0 || !sameLayout(scalar.layout, { splits: {}, partial: {} }))
      say('T1', clause('T/scalar', { ref: instr.ins[i + 1], type: showShaped(scalar) }))
  const unlike = kept.findIndex(one => !sameLayout(one.layout, grad.layout) || !sameDims(one.dims, grad.dims))
  const why = Object.keys(grad.layout.partial).length > 0 || unfinished(grad)
  if (why || unlike >= 0) {
    const [ref, type] = why ? [instr.ins[0], grad] : [instr.ins[3 + unlike], kept[unlike]]
    return void say('T1', clause('T/is', { ref, type: showShaped(type) }))
  }
  const split = axesThatMatter(program.mesh).filter(axis => !isWhole(grad.layout, axis))
  const partial = Object.fromEntries(split.map(axis => [axis, 'sum'] as const))
  return claimed.map(type => ({ ...type, dims: [], layout: { splits: {}, partial } }))
}

/** Each element once: the axes on which the value is whole are masked to coordinate 0, so the sum is partial on all. */
function squares({
  program,
  instr,
  operands: [x],
  claimed,
  say,
}: Case<InstrOf<'sumSquares'>>): readonly Type[] | undefined {
  const axes = axesThatMatter(program.mesh)
  if (Object.keys(x.layout.partial).length > 0 || unfinished(x))
    return void say('T1', clause('T/is', { ref: instr.ins[0], type: showShaped(x) }))
  const whole = axes.filter(axis => isWhole(x.layout, axis))
  const once = instr.once.filter(axis => axes.some(name => name === axis))
  if (!sameSet(whole, once))
    say('T6', clause('T/once', { ref: instr.ins[0], whole: whole.join(' '), once: once.join(' ') }))
  const partial = Object.fromEntries(axes.map(axis => [axis, 'sum'] as const))
  return [{ ...claimed[0], dims: [], layout: { splits: {}, partial } }]
}
