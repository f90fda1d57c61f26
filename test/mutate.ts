/**
 * Ways to break a program, each a small slip of the kind a compiler makes: a collective dropped, a group changed, an
 * operand of the same type taken for another, a frame freed early. A mutation says what it did and where, so that a
 * test can ask whether the laws point there. Inside a segment a slip hits every call of it, or one call alone.
 */
import { choices } from '../src/base/index.js'
import {
  type Buffer,
  type Call,
  type Collective,
  type Compute,
  type Instr,
  type Place,
  type Program,
  printInstr,
  printStep,
  type Segment,
  type Step,
  traitsOf,
} from '../src/ir/index.js'

export interface Mutation {
  readonly name: string
  readonly what: string
  /** Where; of something moved, where it was and where it went. */
  readonly at: readonly Place[]
  readonly program: Program
}

export type Random = ReturnType<typeof choices>
type Mutator = (program: Program, random: Random) => Omit<Mutation, 'name'> | undefined

/** A call drawn at random, and a place in its segment. */
interface Draw {
  readonly pipeline: number
  readonly step: number
  readonly call: Call
  readonly segment: Segment
  /** Change the segment for this call alone. */
  readonly alone: boolean
}

function draw(program: Program, { int, pick, chance }: Random): Draw {
  const pipeline = int(program.streams.length)
  const calls = program.streams[pipeline].steps.flatMap((step, i) => (step.kind === 'call' ? [i] : []))
  const step = pick(calls)
  const call = program.streams[pipeline].steps[step] as Call // the list holds calls only
  return { pipeline, step, call, segment: program.segments[call.segment], alone: chance(0.5) }
}

function withSegment(program: Program, { alone, call, pipeline, step }: Draw, changed: Segment): Program {
  if (!alone) return { ...program, segments: { ...program.segments, [call.segment]: changed } }
  const name = `${call.segment}~`
  const segments = { ...program.segments, [name]: { ...changed, name } }
  return withSteps({ ...program, segments }, pipeline, steps => steps.with(step, { ...call, segment: name }))
}

function withSteps(program: Program, pipeline: number, edit: (steps: readonly Step[]) => readonly Step[]): Program {
  const { [pipeline]: stream } = program.streams
  return { ...program, streams: program.streams.with(pipeline, { ...stream, steps: edit(stream.steps) }) }
}

/** A slip in the instructions of a segment: gives the new list, where it is, and what was done. */
type Slip = (
  segment: Segment,
  random: Random,
  program: Program,
) => { instrs: readonly Instr[]; at: number; what: string } | undefined

const inInstrs =
  (slip: Slip): Mutator =>
  (program, random) => {
    const drawn = draw(program, random)
    const slipped = slip(drawn.segment, random, program)
    if (!slipped) return undefined
    const { instrs, at, what } = slipped
    return { what, at: [placeIn(drawn, at)], program: withSegment(program, drawn, { ...drawn.segment, instrs }) }
  }

const placeIn = ({ call, alone, pipeline, step }: Draw, instr?: number): Place => ({
  segment: alone ? `${call.segment}~` : call.segment,
  ...(alone ? { pipeline, step } : {}),
  ...(instr === undefined ? {} : { instr }),
})

const indicesWhere = (instrs: readonly Instr[], holds: (instr: Instr) => boolean): number[] =>
  instrs.flatMap((instr, i) => (holds(instr) ? [i] : []))

/** A slip in one instruction of those for which `holds`. */
const inOne = (
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

const isCollective = (instr: Instr): instr is Collective => traitsOf(instr).meets !== undefined
const isCompute = (instr: Instr): instr is Compute => 'ins' in instr
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

const without = <T>(list: readonly T[], ...at: readonly number[]): T[] => list.filter((_, i) => !at.includes(i))
const moved = <T>(list: readonly T[], from: number, to: number): T[] => {
  const rest = without(list, from)
  rest.splice(to, 0, list[from])
  return rest
}

const inSegments: Readonly<Record<string, Mutator>> = {
  'drop an instruction': inInstrs(({ instrs }, { int }) => {
    if (instrs.length === 0) return undefined
    const at = int(instrs.length)
    const instr = instrs[at]
    const gone = isCollective(instr) ? [at, waitOf(instrs, at, instr.out)] : [at]
    return { instrs: without(instrs, ...gone), at, what: `dropped ${printInstr(instr)}` }
  }),
  'drop a collective, keep its operand': inInstrs(({ instrs }, { pick }) => {
    const found = indicesWhere(instrs, isCollective)
    if (found.length === 0) return undefined
    const at = pick(found)
    const { in: operand, out } = instrs[at] as Collective // found as one
    const copy: Instr = { kind: 'scale', by: 1, ins: [operand], outs: [out] }
    return { instrs: without(instrs.with(at, copy), waitOf(instrs, at, out)), at, what: `no ${printInstr(instrs[at])}` }
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
    const others = buffers[instr.in].dims.filter(dim => dim.name !== instr.dim)
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
      const { in: operand } = instr as Collective // a slice has one too
      const other = alike(segment, operand, random)
      return other === undefined ? undefined : ({ ...instr, in: other } as Instr) // the same kind
    },
  ),
  'change a number of an op': inOne(isCompute, (instr, _, { pick }) => {
    const numbers = Object.entries(instr).filter(([, value]) => typeof value === 'number')
    if (numbers.length === 0) return undefined
    const [key, value] = pick(numbers) as [string, number] // kept the numbers only
    return { ...instr, [key]: value === 0 ? 0.5 : value * 1.5 }
  }),
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
const inBuffer =
  (change: (buffer: Buffer, segment: Segment, random: Random) => Buffer | undefined): Mutator =>
  (program, random) => {
    const drawn = draw(program, random)
    const ref = random.pick(Object.keys(drawn.segment.buffers))
    const changed = change(drawn.segment.buffers[ref], drawn.segment, random)
    if (!changed) return undefined
    const buffers = { ...drawn.segment.buffers, [ref]: changed }
    const what = `%${ref}: ${JSON.stringify(drawn.segment.buffers[ref])} became ${JSON.stringify(changed)}`
    return { what, at: [placeIn(drawn)], program: withSegment(program, drawn, { ...drawn.segment, buffers }) }
  }

const inBuffers: Readonly<Record<string, Mutator>> = {
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
  'put a buffer over another': inBuffer((buffer, { buffers }, { pick }) => {
    const others = Object.values(buffers).filter(other => other.role === buffer.role && other.offset !== buffer.offset)
    return others.length > 0 ? { ...buffer, offset: pick(others).offset } : undefined
  }),
  'shift a buffer': inBuffer((buffer, { roles }, { pick }) => {
    const offset = buffer.offset + pick([-4, 4, 64])
    return offset >= 0 && offset < roles[buffer.role].bytes ? { ...buffer, offset } : undefined
  }),
}

/** A slip in the steps of a stream. */
const inSteps =
  (
    slip: (
      steps: readonly Step[],
      random: Random,
      program: Program,
    ) => { steps: readonly Step[]; at: number; from?: number; what: string } | undefined,
  ): Mutator =>
  (program, random) => {
    const pipeline = random.int(program.streams.length)
    const slipped = slip(program.streams[pipeline].steps, random, program)
    if (!slipped) return undefined
    const at = [slipped.at, ...(slipped.from === undefined ? [] : [slipped.from])].map(step => ({ pipeline, step }))
    return { what: slipped.what, at, program: withSteps(program, pipeline, () => slipped.steps) }
  }

const inStep = (
  holds: (step: Step) => boolean,
  change: (step: Step, random: Random, program: Program) => Step | undefined,
): Mutator =>
  inSteps((steps, random, program) => {
    const found = steps.flatMap((step, i) => (holds(step) ? [i] : []))
    if (found.length === 0) return undefined
    const at = random.pick(found)
    const changed = change(steps[at], random, program)
    return (
      changed && { steps: steps.with(at, changed), at, what: `${printStep(steps[at])} became ${printStep(changed)}` }
    )
  })

const isCall = (step: Step): step is Call => step.kind === 'call'
const travels = (step: Step) => step.kind === 'send' || step.kind === 'recv'

/** Moves one step of a kind by a few places, or anywhere. */
const move = (kinds: readonly Step['kind'][], direction: -1 | 1): Mutator =>
  inSteps((steps, { pick, int }) => {
    const found = steps.flatMap((step, i) => (kinds.includes(step.kind) ? [i] : []))
    if (found.length === 0) return undefined
    const from = pick(found)
    const to = Math.min(Math.max(0, from + direction * (1 + int(12))), steps.length - 1)
    return {
      steps: moved(steps, from, to),
      at: to,
      from,
      what: `${printStep(steps[from])} moved from ${from} to ${to}`,
    }
  })

const inStreams: Readonly<Record<string, Mutator>> = {
  'drop a step': inSteps((steps, { int }) => {
    const at = int(steps.length)
    return { steps: without(steps, at), at, what: `dropped ${printStep(steps[at])}` }
  }),
  'do a call twice': inSteps((steps, { pick }) => {
    const at = pick(steps.flatMap((step, i) => (isCall(step) ? [i] : [])))
    return { steps: steps.toSpliced(at, 0, steps[at]), at, what: `twice ${printStep(steps[at])}` }
  }),
  'free early': move(['free'], -1),
  'allocate late': move(['alloc'], 1),
  'wait late': move(['wait'], 1),
  'wait early': move(['wait'], -1),
  'receive late': move(['recv'], 1),
  'send early': move(['send'], -1),
  'call early': move(['call'], -1),
  'call late': move(['call'], 1),
  'swap two transfers': inSteps((steps, { pick }) => {
    const found = steps.flatMap((step, i) => (travels(step) ? [i] : []))
    if (found.length < 2) return undefined
    const at = pick(found.slice(1))
    const other = found[found.indexOf(at) - 1]
    return {
      steps: steps.with(at, steps[other]).with(other, steps[at]),
      at,
      from: other,
      what: `${printStep(steps[at])} changed places with ${printStep(steps[other])}`,
    }
  }),
  'send another frame': inSteps((steps, { pick }) => {
    const found = steps.flatMap((step, i) => (travels(step) ? [i] : []))
    const sent = found.map(i => steps[i] as Extract<Step, { kind: 'send' | 'recv' }>) // found as such
    if (found.length < 2) return undefined
    const at = pick(found)
    const step = steps[at] as (typeof sent)[number] // found as such
    const changed = { ...step, frame: pick(sent).frame }
    return changed.frame === step.frame
      ? undefined
      : { steps: steps.with(at, changed), at, what: `${printStep(step)} became ${printStep(changed)}` }
  }),
  'send to another stage': inStep(travels, (step, { int }, { streams }) =>
    step.kind === 'send' || step.kind === 'recv' ? { ...step, peer: int(streams.length) } : undefined,
  ),
  'bind another frame': (program, random) => {
    const { pipeline, step, call } = draw(program, random)
    const { frames, steps } = program.streams[pipeline]
    const role = random.int(call.bind.length)
    const own = frames[call.bind[role]]
    const others = frames.flatMap((frame, i) =>
      frame !== own && frame.bytes === own.bytes && frame.kind === own.kind ? [i] : [],
    )
    if (others.length === 0) return undefined
    const changed = { ...call, bind: call.bind.with(role, random.pick(others)) }
    const what = `${printStep(call)} became ${printStep(changed)}`
    return { what, at: [{ pipeline, step }], program: withSteps(program, pipeline, () => steps.with(step, changed)) }
  },
  'another microbatch': inStep(isCall, (step, { int }, { microbatches }) =>
    isCall(step) && step.microbatch >= 0 && microbatches > 1
      ? { ...step, microbatch: (step.microbatch + 1 + int(microbatches - 1)) % microbatches }
      : undefined,
  ),
  'another block': inStep(isCall, (step, { pick }, { blocks }) => {
    if (!isCall(step) || step.block < 0) return undefined
    const others = blocks.flatMap(({ kind }, i) => (i !== step.block && kind === blocks[step.block].kind ? [i] : []))
    return others.length > 0 ? { ...step, block: pick(others) } : undefined
  }),
  'another segment': (program, random) => {
    const { pipeline, step, call, segment } = draw(program, random)
    const fits = (other: Segment) =>
      other !== segment &&
      JSON.stringify(other.roles.map(r => r.bytes)) === JSON.stringify(segment.roles.map(r => r.bytes))
    const others = Object.keys(program.segments).filter(key => fits(program.segments[key]))
    if (others.length === 0) return undefined
    const changed = { ...call, segment: random.pick(others) }
    const what = `${printStep(call)} became ${printStep(changed)}`
    return { what, at: [{ pipeline, step }], program: withSteps(program, pipeline, steps => steps.with(step, changed)) }
  },
  'put a frame over another': (program, random) => {
    const pipeline = random.int(program.streams.length)
    const stream = program.streams[pipeline]
    const [a, b] = [random.int(stream.frames.length), random.int(stream.frames.length)]
    const moved = { ...stream.frames[a], offset: stream.frames[b].offset }
    const what = `${moved.name} lies where ${stream.frames[b].name} does`
    const streams = program.streams.with(pipeline, { ...stream, frames: stream.frames.with(a, moved) })
    return { what, at: [{ pipeline }], program: { ...program, streams } }
  },
}

export const mutators: Readonly<Record<string, Mutator>> = { ...inSegments, ...inBuffers, ...inStreams }

/** Mutations of every kind, as many of each as can be found in a few tries. */
export function mutationsOf(program: Program, seed: number, each: number): Mutation[] {
  return Object.entries(mutators).flatMap(([name, mutator], i) => {
    const random = choices(seed * 1000 + i)
    const found: Mutation[] = []
    for (let tries = 0; tries < 20 * each && found.length < each; tries++) {
      const mutation = mutator(program, random)
      if (mutation && mutation.program !== program) found.push({ name, ...mutation })
    }
    return found
  })
}
