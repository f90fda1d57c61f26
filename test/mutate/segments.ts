/** Slips inside a segment: in its instructions, and in what it says of its buffers. */
import {
  type Buffer,
  type Collective,
  type Compute,
  type Instr,
  isCollective,
  isCompute,
  type Program,
  printInstr,
  type Segment,
  traitsOf,
} from '../../src/ir/index.js'
import { draw, type Mutator, moved, placeIn, type Random, without, withSegment } from './draw.js'

/** A slip in the instructions of a segment: gives the new list, where it is, and what was done. */
type Slip = (
  segment: Segment,
  random: Random,
  program: Program,
) => { instrs: readonly Instr[]; at: number; what: string } | undefined

export const inInstrs =
  (slip: Slip): Mutator =>
  (program, random) => {
    const drawn = draw(program, random)
    const slipped = slip(drawn.segment, random, program)
    if (!slipped) return undefined
    const { instrs, at, what } = slipped
    return { what, at: [placeIn(drawn, at)], program: withSegment(program, drawn, { ...drawn.segment, instrs }) }
  }

const indicesWhere = (instrs: readonly Instr[], holds: (instr: Instr) => boolean): number[] =>
  instrs.flatMap((instr, i) => (holds(instr) ? [i] : []))

/** A slip in one instruction of those for which `holds`. */
export const inOne = (
  holds: (instr: Instr) => boolean,
  change: (instr: Instr, segment: Segment, random: Random, program: Program) => Instr | undefined,
): Mutator =>
  inInstrs((segment, random, program) => {
    const found = indicesWhere(segment.instrs, holds)
    if (found.length === 0) return undefined
    const at = random.pick(found)
    const changed = change(segment.instrs[at], segment, random, program)
    if (!changed) return undefined
    return {
      instrs: segment.instrs.with(at, changed),
      at,
      what: `${printInstr(segment.instrs[at])} became ${printInstr(changed)}`,
    }
  })

const waitOf = (instrs: readonly Instr[], from: number, out: string) =>
  instrs.findIndex((instr, i) => i > from && instr.kind === 'wait' && instr.on === out)

const same = (a: Buffer, b: Buffer, layout: boolean) =>
  a.dtype === b.dtype &&
  JSON.stringify(a.dims) === JSON.stringify(b.dims) &&
  (!layout || JSON.stringify(a.layout) === JSON.stringify(b.layout))

/** Another buffer of the segment with the same dims. */
function alike(segment: Segment, ref: string, { pick, chance }: Random): string | undefined {
  const layout = chance(0.7)
  const others = Object.keys(segment.buffers).filter(
    other => other !== ref && same(segment.buffers[ref], segment.buffers[other], layout),
  )
  return others.length > 0 ? pick(others) : undefined
}

export const inSegments: Readonly<Record<string, Mutator>> = {
  'drop an instruction': inInstrs(({ instrs }, { int }) => {
    if (instrs.length === 0) return undefined
    const at = int(instrs.length)
    const instr = instrs[at]
    const gone = isCollective(instr) ? [at, waitOf(instrs, at, instr.outs[0])] : [at]
    return { instrs: without(instrs, ...gone), at, what: `dropped ${printInstr(instr)}` }
  }),
  'drop a collective, keep its operand': inInstrs(({ instrs }, { pick }) => {
    const found = indicesWhere(instrs, isCollective)
    if (found.length === 0) return undefined
    const at = pick(found)
    const { ins, outs } = instrs[at] as Collective // found as one
    const copies = outs.map((out, i): Instr => ({ kind: 'scale', by: 1, ins: [ins[i]], outs: [out] }))
    const rest = without(instrs, waitOf(instrs, at, outs[0])).toSpliced(at, 1, ...copies)
    return { instrs: rest, at, what: `no ${printInstr(instrs[at])}` }
  }),
  'change a group': inOne(isCollective, (instr, _, { pick, chance }, { mesh, streams }) => {
    const collective = instr as Collective // found as one
    const { group } = collective
    if (group.stages && chance(0.5)) return { ...collective, group: { ...group, stages: without(group.stages, 0) } }
    const axes = mesh.axes.filter(({ size }) => size > 1).map(({ name }) => name)
    const other = axes.filter(axis => !group.axes.includes(axis))
    if (other.length > 0 && chance(0.5))
      return { ...collective, group: { ...group, axes: [...group.axes, pick(other)] } }
    if (other.length > 0) return { ...collective, group: { ...group, axes: [pick(other)] } }
    return streams.length > 1 ? { ...collective, group: { ...group, axes: group.axes.slice(1) } } : undefined
  }),
  'change what a collective does': inOne(isCollective, (instr, { buffers }, { pick }) => {
    if (instr.kind === 'all-reduce') return { ...instr, combine: instr.combine === 'sum' ? 'max' : 'sum' }
    if (instr.kind === 'all-to-all') return { ...instr, from: instr.to, to: instr.from }
    if (instr.kind !== 'all-gather' && instr.kind !== 'reduce-scatter') return undefined
    const others = buffers[instr.ins[0]].dims.filter(dim => dim.name !== instr.dim)
    return others.length > 0 ? { ...instr, dim: pick(others).name } : undefined
  }),
  'do an instruction twice': inInstrs(({ instrs }, { pick }) => {
    const found = indicesWhere(instrs, isCompute)
    if (found.length === 0) return undefined
    const at = pick(found)
    return { instrs: instrs.toSpliced(at, 0, instrs[at]), at, what: `twice ${printInstr(instrs[at])}` }
  }),
  'move an instruction': inInstrs(({ instrs }, { int }) => {
    if (instrs.length < 2) return undefined
    const [from, to] = [int(instrs.length), int(instrs.length)]
    return { instrs: moved(instrs, from, to), at: to, what: `${printInstr(instrs[from])} moved from ${from} to ${to}` }
  }),
  'move a wait': inInstrs(({ instrs }, { pick, int }) => {
    const found = indicesWhere(instrs, ({ kind }) => kind === 'wait')
    if (found.length === 0) return undefined
    const [from, to] = [pick(found), int(instrs.length)]
    return { instrs: moved(instrs, from, to), at: to, what: `${printInstr(instrs[from])} moved from ${from} to ${to}` }
  }),
  'take another operand': inOne(isCompute, (instr, segment, random) => {
    const { ins } = instr as Compute // found as one
    if (ins.length === 0) return undefined
    const at = random.int(ins.length)
    const other = alike(segment, ins[at], random)
    return other === undefined ? undefined : ({ ...instr, ins: ins.with(at, other) } as Instr) // the same kind
  }),
  'write another result': inOne(isCompute, (instr, segment, random) => {
    const { outs } = instr as Compute // found as one
    const at = random.int(outs.length)
    const other = alike(segment, outs[at], random)
    return other === undefined ? undefined : ({ ...instr, outs: outs.with(at, other) } as Instr) // the same kind
  }),
  'swap two operands': inOne(isCompute, (instr, _, { int }) => {
    const { ins } = instr as Compute // found as one
    if (ins.length < 2) return undefined
    const at = int(ins.length - 1)
    return { ...instr, ins: ins.with(at, ins[at + 1]).with(at + 1, ins[at]) } as Instr // the same kind
  }),
  'move another operand': inOne(
    instr => isCollective(instr) || instr.kind === 'slice',
    (instr, segment, random) => {
      const [operand, ...rest] = traitsOf(instr).reads
      const other = alike(segment, operand, random)
      if (other === undefined) return undefined
      return instr.kind === 'slice' ? { ...instr, in: other } : ({ ...instr, ins: [other, ...rest] } as Instr) // the same kind
    },
  ),
  'change a number of an op': inOne(isCompute, (instr, _, { pick }) => {
    const numbers = Object.entries(instr).filter(([, value]) => typeof value === 'number')
    if (numbers.length === 0) return undefined
    const [key, value] = pick(numbers) as [string, number] // kept the numbers only
    return { ...instr, [key]: value === 0 ? 0.5 : value * 1.5 }
  }),
  'flip a flag of an op': inOne(isCompute, (instr, _, { pick }) => {
    const flags = Object.entries(instr).filter(([, value]) => typeof value === 'boolean')
    if (flags.length === 0) return undefined
    const [key, value] = pick(flags)
    return { ...instr, [key]: !value }
  }),
  'another dropout': inOne(isCompute, (instr, _, { chance }) => {
    if (!('dropout' in instr) || !instr.dropout) return undefined
    const { rate, key } = instr.dropout
    return { ...instr, dropout: chance(0.5) ? { rate: rate / 2, key } : { rate, key: `${key}'` } }
  }),
  'turn a group round': inOne(
    instr => (traitsOf(instr).meets?.axes.length ?? 0) > 1,
    instr =>
      isCollective(instr) ? { ...instr, group: { ...instr.group, axes: instr.group.axes.toReversed() } } : undefined,
  ),
  'slice otherwise': inOne(
    ({ kind }) => kind === 'slice',
    (instr, { buffers }, { pick, chance }, { mesh }) => {
      if (instr.kind !== 'slice') return undefined
      if (chance(0.5)) return { ...instr, dim: pick(buffers[instr.in].dims).name }
      return { ...instr, axes: [pick(mesh.axes.filter(({ size }) => size > 1)).name] }
    },
  ),
  'count replicas in the norm': inOne(
    ({ kind }) => kind === 'sumSquares',
    instr =>
      instr.kind === 'sumSquares' && instr.once.length > 0 ? { ...instr, once: instr.once.slice(1) } : undefined,
  ),
  'count too little in the norm': inOne(
    ({ kind }) => kind === 'sumSquares',
    (instr, _, { pick }, { mesh }) => {
      const axes = mesh.axes.filter(
        ({ size, name }) => size > 1 && instr.kind === 'sumSquares' && !instr.once.includes(name),
      )
      return instr.kind === 'sumSquares' && axes.length > 0
        ? { ...instr, once: [...instr.once, pick(axes).name] }
        : undefined
    },
  ),
  'load another input': inOne(
    ({ kind }) => kind === 'load',
    (instr, _, { pick }, { inputs }) => {
      const others = inputs.filter(({ name }) => instr.kind === 'load' && name !== instr.input)
      return instr.kind === 'load' && others.length > 0 ? { ...instr, input: pick(others).name } : undefined
    },
  ),
  'forget 1/count': inOne(
    ({ kind }) => kind === 'tokenLossGrad' || kind === 'squaredErrorGrad',
    (instr, { buffers }, { pick }) => {
      const { ins } = instr as Compute // found as one
      const scalars = Object.keys(buffers).filter(ref => buffers[ref].dims.length === 0 && ref !== ins.at(-1))
      return scalars.length > 0 ? ({ ...instr, ins: [...ins.slice(0, -1), pick(scalars)] } as Instr) : undefined // the same kind
    },
  ),
}

/** A slip in the declaration of a buffer. */
export const inBuffer =
  (change: (buffer: Buffer, segment: Segment, random: Random, program: Program) => Buffer | undefined): Mutator =>
  (program, random) => {
    const drawn = draw(program, random)
    const ref = random.pick(Object.keys(drawn.segment.buffers))
    const changed = change(drawn.segment.buffers[ref], drawn.segment, random, program)
    if (!changed) return undefined
    const buffers = { ...drawn.segment.buffers, [ref]: changed }
    const what = `%${ref}: ${JSON.stringify(drawn.segment.buffers[ref])} became ${JSON.stringify(changed)}`
    return { what, at: [placeIn(drawn)], program: withSegment(program, drawn, { ...drawn.segment, buffers }) }
  }

export const inBuffers: Readonly<Record<string, Mutator>> = {
  'mark a partial as whole': inBuffer(buffer =>
    Object.keys(buffer.layout.partial).length > 0
      ? { ...buffer, layout: { ...buffer.layout, partial: {} } }
      : undefined,
  ),
  'mark a split as whole': inBuffer(buffer =>
    Object.values(buffer.layout.splits).some(axes => axes.length > 0)
      ? { ...buffer, layout: { ...buffer.layout, splits: {} } }
      : undefined,
  ),
  'transpose a buffer': inBuffer(buffer =>
    buffer.dims.length > 1 ? { ...buffer, dims: buffer.dims.toReversed() } : undefined,
  ),
  'name a dim otherwise': inBuffer((buffer, _, { int }) => {
    if (buffer.dims.length < 2) return undefined
    const at = int(buffer.dims.length - 1)
    const [a, b] = [buffer.dims[at], buffer.dims[at + 1]]
    return { ...buffer, dims: buffer.dims.with(at, { ...a, name: b.name }).with(at + 1, { ...b, name: a.name }) }
  }),
  'put a buffer over another': inBuffer((buffer, { buffers }, { pick }) => {
    const others = Object.values(buffers).filter(other => other.role === buffer.role && other.offset !== buffer.offset)
    return others.length > 0 ? { ...buffer, offset: pick(others).offset } : undefined
  }),
  'shift a buffer': inBuffer((buffer, { roles }, { pick }) => {
    const offset = buffer.offset + pick([-4, 4, 64])
    return offset >= 0 && offset < roles[buffer.role].bytes ? { ...buffer, offset } : undefined
  }),
}

export const inDtypes: Readonly<Record<string, Mutator>> = {
  'store a buffer otherwise': inBuffer((buffer, _, { pick }) => ({
    ...buffer,
    dtype: pick((['f32', 'bf16', 'i32'] as const).filter(dtype => dtype !== buffer.dtype)),
  })),
}
