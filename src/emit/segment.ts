/**
 * A segment as a Python function of tensors: it takes what it reads from buffers, in groups (block input,
 * parameters, saved activations, gradients), and returns what it writes to buffers. One line per instruction.
 */
import {
  type Axis,
  type Dim,
  isOptimizer,
  isZigzagCut,
  type Mesh,
  sizeOfAll,
  splitOf,
  zigzagAxes,
} from '../base/index.js'
import {
  applyRule,
  type Buffer,
  type Instr,
  isCollective,
  type Program,
  type Ref,
  type Segment,
  traitsOf,
} from '../ir/index.js'
import { crossEntropyIn, crossEntropyLine } from './cross-entropy.js'
import { call, groupLabel, isRounding, type Options, type Site, tuple } from './expressions.js'
import { quantizeLines } from './fp8.js'
import { fusedLines, inWritingOrder, residualLines } from './fused-lines.js'
import type { FusedMatmuls } from './fused-matmuls.js'
import { isForeach } from './fused-params.js'
import { isNorm, type Norm, normalizedRows } from './norm-scales.js'
import { normGradLines } from './norms.js'
import { quote } from './python.js'
import { torchOf } from './rules.js'
import type { Usage } from './usage.js'

/** Where an argument comes from and a result goes to: the index of a role, and the place in its frame. */
export type Slot = readonly [role: number, offset: number]

/** A segment as a function that has no name yet. */
export interface SegmentFunction {
  readonly segment: Segment
  /** Arguments and results by group, and the lines between them. */
  readonly args: readonly (readonly string[])[]
  readonly body: readonly string[]
  readonly results: readonly (readonly string[])[]
  readonly takes: readonly Slot[]
  readonly gives: readonly Slot[]
  /** Roles that come as lists, one tensor for each parameter that is served; none where it serves one alone. */
  readonly lists: readonly number[]
}

/** `uses`: what it does with parameters that lie side by side. */
export function emitSegment(
  program: Program,
  segment: Segment,
  usage: Usage,
  uses: readonly FusedMatmuls[] = [],
): SegmentFunction {
  const flow = flowOf(segment, usage)
  const scales = scalesIn(segment, usage)
  const site = siteOf(program, segment, usage, { args: flow.args, scale: scales.of })
  const joint = fusedLines(segment, usage, uses)
  const lines = new Map([
    ...residualLines(segment),
    ...normGradLines(segment),
    ...joint.lines,
    ...lossLines(segment),
    ...quantizeLines(segment),
  ])
  const [reads, writes] = [flow.args, flow.results].map(refs =>
    groupsOf(
      segment,
      refs.filter(ref => !joint.within.has(ref)),
    ),
  )
  const nameOf = (ref: Ref) => joint.names.get(ref) ?? site.name(ref)
  // The variable that holds a place may change on the way: arguments are named before it.
  const args = reads.map(group => group.map(nameOf))
  const body = [
    ...viewsOf(segment, flow.args, site),
    ...inWritingOrder(segment).flatMap(instr => linesOf(instr, site, lines.get(instr))),
  ]
  const slot = (ref: Ref): Slot => [segment.buffers[ref].role, segment.buffers[ref].offset]
  return {
    segment,
    args: [...args, scales.taken.map(scales.name)].filter(group => group.length > 0),
    body,
    results: [...writes.map(group => group.map(nameOf)), scales.left.map(scales.name)].filter(
      ({ length }) => length > 0,
    ),
    takes: [...reads.flat().map(slot), ...scales.taken.map(scales.slot)],
    gives: [...writes.flat().map(slot), ...scales.left.map(scales.slot)],
    lists: listsOf(segment),
  }
}

/** The scales of a segment's norms: those that come and go with their rows' frames, and the lines that work out the rest. */
function scalesIn({ buffers, instrs }: Segment, { scales, names }: Usage) {
  const rows = [...new Set(instrs.filter(isNorm).map(normalizedRows))]
  const known = new Set(scales.taken)
  const name = (rows: Ref) => `${names.get(rows)!}_scale`
  return {
    taken: rows.filter(ref => scales.taken.has(ref)),
    left: rows.filter(ref => scales.left.has(ref)),
    name,
    // Nothing else begins there: numbers of a frame take two bytes at least.
    slot: (rows: Ref): Slot => [buffers[rows].role, buffers[rows].offset + 1],
    of(norm: Norm, x: string, options: Options) {
      const rows = normalizedRows(norm)
      const lines = known.has(rows) ? [] : [`${name(rows)} = ${call('rms_scale', [x], options)}`]
      known.add(rows)
      return { name: name(rows), lines }
    },
  }
}

/** Where only the rank's own part of an argument is meant. */
const viewsOf = ({ buffers }: Segment, args: readonly Ref[], site: Site): string[] =>
  args.flatMap(ref => {
    const { inside, layout } = buffers[ref]
    return inside
      ? [`${site.name(ref)} = ctx.local_shard(${[site.name(ref), ...layout.flat!.map(quote)].join(', ')})`]
      : []
  })

function listsOf({ phase, roles, instrs }: Segment): number[] {
  if (!['begin', 'norm', 'update'].includes(phase) || !instrs.every(isForeach)) return []
  const isOfEach = ({ kind, name }: Segment['roles'][number]) =>
    ['parameters', 'gradients', 'optimizer'].includes(kind) || name.is === 'dealt' || name.is === 'direction'
  return roles.flatMap((role, i) => (isOfEach(role) ? [i] : []))
}

interface Flow {
  /** Read before the segment writes it. */
  readonly args: readonly Ref[]
  /** Written, in frames that outlive the call: of each place the last. */
  readonly results: readonly Ref[]
}

/** Parameters of the optimizer that are also kept in less precision, and what they are rounded to. */
function roundingsOf({ instrs, buffers }: Segment, { resident }: Usage): ReadonlyMap<Ref, Ref> {
  const updated = instrs.flatMap(instr => (isOptimizer(instr) ? [instr.outs[0]] : []))
  const pairs = instrs.flatMap(instr => (isRounding(instr) ? [[instr.ins[0], instr.outs[0]] as const] : []))
  return new Map(pairs.filter(([from, to]) => updated.includes(from) && resident[buffers[to].role]))
}

function flowOf(segment: Segment, usage: Usage): Flow {
  const { temporary, resident } = usage
  const rounded = new Set(roundingsOf(segment, usage).values())
  const args: Ref[] = []
  const held = new Set<string>()
  const results = new Map<string, Ref>()
  const at = (ref: Ref) => `${segment.buffers[ref].role}+${segment.buffers[ref].offset}`
  const written = new Set<Ref>()
  const read = (ref: Ref) => {
    if (written.has(ref) || held.has(at(ref))) return
    held.add(at(ref))
    args.push(ref)
  }
  for (const instr of segment.instrs) {
    const { reads, writes } = traitsOf(instr)
    for (const ref of reads) read(ref)
    for (const ref of writes) {
      const { role } = segment.buffers[ref]
      // What lives from step to step is cleared, and rounded to, in place.
      if ((instr.kind === 'zero' && resident[role]) || rounded.has(ref)) read(ref)
      // A part is updated where it lies, inside the whole.
      const { inside } = segment.buffers[ref]
      if (inside) read(ref)
      written.add(ref)
      if (!inside && !temporary[role]) {
        held.add(at(ref))
        results.set(at(ref), ref)
      }
    }
  }
  return { args, results: [...results.values()] }
}

const order = ['data', 'activations', 'parameters', 'keep', 'gradients', 'optimizer', 'workspace'] as const

/** Carry and data, parameters, what was kept, gradients, the rest. */
function groupsOf({ buffers, roles }: Segment, refs: readonly Ref[]): Ref[][] {
  const groupOf = (ref: Ref): (typeof order)[number] => {
    const { kind, name } = roles[buffers[ref].role]
    return kind === 'activations' && (name.is === 'keep' || name.is === 'hold') ? 'keep' : kind
  }
  return order.map(group => refs.filter(ref => groupOf(ref) === group)).filter(group => group.length > 0)
}

interface FunctionInputs {
  readonly args: readonly Ref[]
  readonly scale: ReturnType<typeof scalesIn>['of']
}

function siteOf(program: Program, segment: Segment, usage: Usage, { args, scale }: FunctionInputs): Site {
  const { names, resident, temporary, overwritten } = usage
  const { mesh, microbatches } = program
  const holder = new Map<string, Ref>()
  const at = ({ role, offset }: Buffer) => `${role}+${offset}`
  for (const ref of args) holder.set(at(segment.buffers[ref]), ref)
  const written = new Set<Ref>()
  const turned = new Set<string>()
  const buffer = (ref: Ref) => segment.buffers[ref]
  const last = lastReads(segment)
  const outlives = (ref: Ref) => !temporary[buffer(ref).role]
  const roundings = roundingsOf(segment, usage)
  const started = new Map(segment.instrs.filter(isCollective).map(({ outs }) => [outs[0], outs]))
  /** A place may be known by two names (a partial sum, and the sum): the value is what was written last. */
  const name = (ref: Ref) => names.get(written.has(ref) ? ref : (holder.get(at(buffer(ref))) ?? ref))!
  return {
    buffer,
    dims: ref => buffer(ref).dims,
    name,
    wrote(ref) {
      written.add(ref)
      holder.set(at(buffer(ref)), ref)
    },
    result: ref => names.get(ref)!,
    resident: ref => resident[buffer(ref).role],
    rounded: ref => roundings.get(ref),
    finished: ref => started.get(ref) ?? [ref],
    overwritten: ref => overwritten[buffer(ref).role],
    // What is read from a frame belongs to others, unless the result takes its place there.
    consumed: (ref, by, out) =>
      at(buffer(ref)) === at(buffer(out)) || (written.has(ref) && last.get(ref) === by && !outlives(ref)),
    turned(ref, first) {
      const variable = `${name(ref)}_transposed`
      const known = turned.has(variable)
      turned.add(variable)
      return {
        name: variable,
        lines: known ? [] : [`${variable} = ${call('transpose_quantized', [name(ref), String(first)])}`],
      }
    },
    scale: (norm, options) => scale(norm, name(normalizedRows(norm)), options),
    first: (ref, dim) => firstOf(mesh, buffer(ref), dim),
    firstInMicrobatch: (ref, dim) => firstInMicrobatch(mesh, buffer(ref), dim) || '0',
    perMicrobatch: (ref, batch) => perMicrobatch(mesh, buffer(ref), batch),
    whole: (ref, { name, size }) =>
      size * sizeOfAll(mesh, splitOf(buffer(ref).layout, name)) * (name === 'batch' ? microbatches : 1),
    ranks: axes => sizeOfAll(mesh, axes),
    zigzag: (axes, dim) => zigzagOf(mesh, axes, dim).length,
    along: axes => `ctx.coord(${axes.map(quote).join(', ')})`,
    group: group => quote(groupLabel(group)),
  }
}

/** The index of the instruction after which a value is read no more. */
function lastReads({ instrs }: Segment): ReadonlyMap<Ref, Instr> {
  const last = new Map<Ref, Instr>()
  for (const instr of instrs) for (const ref of traitsOf(instr).reads) last.set(ref, instr)
  return last
}

/** Of the axes a dim is split over those that cut it in zigzag: one, or its factors. */
const zigzagOf = (mesh: Mesh, axes: readonly Axis[], dim: string): readonly Axis[] =>
  isZigzagCut(mesh, axes, dim) ? zigzagAxes(mesh, axes) : []

/** Where the rank's part begins along a dim of the whole tensor, as an expression. */
function firstOf(mesh: Mesh, buffer: Buffer, dim: Dim): string {
  const before = dim.name === 'batch' ? [`ctx.microbatch * ${perMicrobatch(mesh, buffer, dim)}`] : []
  const inside = firstInMicrobatch(mesh, buffer, dim)
  return [...before, ...(inside ? [inside] : [])].join(' + ') || '0'
}

const perMicrobatch = (mesh: Mesh, { layout }: Buffer, { name, size }: Dim): number =>
  size * sizeOfAll(mesh, splitOf(layout, name))

/** The same of the microbatch alone; empty where it begins with it. */
function firstInMicrobatch(mesh: Mesh, { layout }: Buffer, { name, size }: Dim): string {
  const axes = splitOf(layout, name)
  const parts = sizeOfAll(mesh, axes)
  const ring = layout.turn?.axes ?? []
  const by = axes.slice(0, ring.length).join() === ring.join() ? layout.turn?.by : undefined
  const turned = (ranksEach: number) => (by === undefined ? [] : [`ring_step=${by * ranksEach}`])
  const zigzag = zigzagOf(mesh, axes, name)
  if (zigzag.length > 0) {
    const major = zigzag.length === 1 ? quote(zigzag[0]) : tuple(zigzag.map(quote))
    return `ctx.zigzag_start(${[size, major, ...axes.slice(zigzag.length).map(quote), ...turned(1)].join(', ')})`
  }
  if (parts === 1) return ''
  return `ctx.coord(${[...axes.map(quote), ...turned(sizeOfAll(mesh, axes.slice(ring.length)))].join(', ')}) * ${size}`
}

/** One line for all of a loss and its gradients. */
function lossLines(segment: Segment): (readonly [Instr, (site: Site) => string[]])[] {
  const found = crossEntropyIn(segment)
  if (!found) return []
  return [...found.instrs].map(instr => [instr, site => (instr === found.loss ? crossEntropyLine(site, found) : [])])
}

function linesOf(instr: Instr, site: Site, others?: (site: Site) => string[]): string[] {
  const lines = others ? others(site) : applyRule(torchOf, instr, site)
  for (const ref of traitsOf(instr).writes) site.wrote(ref)
  return lines
}
