/**
 * Tiny programs and tensors by hand, in notation: dims are 'batch/dp 8, embed 4' (whole sizes, and the axes a dim is
 * split over), a mesh is { dp: 2, tp: 2 } with the fastest axis first. 'm 5; flat/dp' is a part of the line, and
 * 'm 5; flat/dp in x' one that lies in its place in the frame of x; 'm 5; room/dp' has room for all parts.
 */
import {
  type Axis,
  type Dim,
  elementsOf,
  heldElements,
  type Layout,
  lineElements,
  localDims,
  type Mesh,
  mapStates,
  type Op,
  type States,
  worldOf,
} from '../src/base/index.js'
import { interpreterOf, type Options, prepare, type StepData } from '../src/engine/index.js'
import {
  type Buffer,
  type Frame,
  type Init,
  type Instr,
  isCollective,
  type Kind,
  type Param,
  type Program,
  type ResultName,
  readRole,
  type Segment,
  type Step,
  type Stream,
} from '../src/ir/index.js'

export const meshOf = (axes: Record<string, number>): Mesh => ({
  axes: Object.entries(axes).map(([name, size]) => ({ name: name as Axis, size })),
})

/** 'batch/dp.tp 8, embed 4' */
export function tensorOf(text: string): { dims: Dim[]; layout: Layout; room?: Axis[]; inside?: string } {
  const [list, rest = ''] = text.split(';')
  const [, how, along, , inside] = /^ ?(?:(flat|room)\/([\w.+]+))?( in (\w+))?$/.exec(rest)!
  const cut = along?.split('+') as Axis[] | undefined // written as axes
  const words = list
    .split(',')
    .map(part => part.trim())
    .filter(part => part !== '')
  const parsed = words.map(word => {
    const [, name, axes, size] = /^(\w+)(?:\/([\w.+]+))? (\d+)$/.exec(word)!
    return { name, axes: axes?.split('+') ?? [], size: Number(size) }
  })
  return {
    dims: parsed.map(({ name, size }) => ({ name, size })),
    layout: {
      splits: Object.fromEntries(parsed.map(({ name, axes }) => [name, axes as Axis[]])),
      partial: {},
      ...(how === 'flat' && { flat: cut! }),
    },
    ...(how === 'room' && { room: cut! }),
    ...(inside && { inside }),
  }
}

export interface Tensor {
  readonly dims: readonly Dim[]
  readonly values: ArrayLike<number>
  /** Where the values begin in the whole tensor, and its size, by dim; whole when absent. */
  readonly origin?: Readonly<Record<string, number>>
  readonly whole?: Readonly<Record<string, number>>
  /** Where it is not one run: the elements before the gap, and how many are skipped. */
  readonly gap?: { readonly dim: string; readonly until: number; readonly gap: number }
}

export const tensor = (text: string, values: ArrayLike<number>): Tensor => ({ dims: tensorOf(text).dims, values })

const moment = { seed: 1, step: 0, block: '', microbatch: 0, at: {} }

/** Runs one op on tensors that lie side by side; `outs` say the results' dims, and their values where they are read. */
export function runOp(
  op: Op,
  ins: readonly Tensor[],
  outs: readonly Tensor[],
  more: Partial<typeof moment> = {},
): Float64Array[] {
  const all = [...ins, ...outs]
  const starts = all.map((_, i) => all.slice(0, i).reduce((at, { dims }) => at + elementsOf(dims), 0))
  const cells = new Float64Array(all.reduce((size, { dims }) => size + elementsOf(dims), 0)).fill(NaN)
  all.forEach(({ values }, i) => {
    cells.set(values, starts[i])
  })
  const shapes = all.map(({ dims, whole }) => ({
    dims,
    whole: dims.map(({ name, size }) => ({ name, size: whole?.[name] ?? size })),
  }))
  const places = all.map(({ dims, origin, gap }, i) => ({
    at: starts[i],
    parts: dims.map(({ name, size }) => ({
      ...{ origin: origin?.[name] ?? 0, until: size, gap: 0 },
      ...(gap?.dim === name && { until: gap.until, gap: gap.gap }),
    })),
  }))
  const kernel = prepare(op, shapes.slice(0, ins.length), shapes.slice(ins.length))
  kernel(cells, places.slice(0, ins.length), places.slice(ins.length), { ...moment, ...more })
  return outs.map(({ dims }, i) => cells.slice(starts[ins.length + i], starts[ins.length + i] + elementsOf(dims)))
}

export interface Tiny {
  readonly mesh?: Record<string, number>
  readonly microbatches?: number
  readonly inputs?: Record<string, string>
  /** Each buffer is a frame of its own, of this kind if it is named 'kind:name'. */
  readonly buffers: Record<string, string>
  readonly segments?: Record<string, readonly Instr[]>
  /** Frames that are not resident. */
  readonly transient?: readonly string[]
  /** Per pipeline coordinate; frames are numbered as the buffers are written. Default: call every segment once. */
  readonly steps?: readonly (readonly Step[])[]
  /** Byte offset and size of frames that do not lie one after the other. */
  readonly placed?: Record<string, readonly [offset: number, bytes: number]>
  readonly arena?: number
  /** Dims with layout, how it begins, and the buffers that hold the parameter, its gradient and its states. */
  readonly params?: Record<string, { dims: string; init: Init; param: string; grad: string; states?: States<string> }>
}

export const kindOf = (name: string): Kind => (name.includes(':') ? (name.split(':')[0] as Kind) : 'workspace')
export const bare = (name: string): string => name.split(':').pop()!

export function tiny(given: Tiny): Program {
  const mesh = meshOf(given.mesh ?? {})
  const entries = Object.entries(given.buffers).map(([name, text]) => ({ name, ...tensorOf(text) }))
  const buffers = entries.map(
    ({ dims, layout, inside }, role): Buffer => ({
      dtype: 'f32',
      dims: localDims(mesh, dims, layout),
      layout,
      role: inside === undefined ? role : entries.findIndex(({ name }) => bare(name) === inside),
      offset: 0,
      ...(inside !== undefined && { inside: true }),
    }),
  )
  const bytes = buffers.map(({ dims, layout }, i) => {
    const { room, inside } = entries[i]
    if (inside !== undefined) return 0
    return 4 * (room ? lineElements(mesh, dims, { ...layout, flat: room }) : heldElements(mesh, dims, layout))
  })
  const frames = entries.map(({ name }, i): Frame => {
    const [offset, size] = given.placed?.[bare(name)] ?? [bytes.slice(0, i).reduce((a, b) => a + b, 0), bytes[i]]
    return { name: bare(name), kind: kindOf(name), offset, bytes: size }
  })
  const roles = frames.map(({ name, kind }, i) => ({ name: readRole(name), kind, bytes: bytes[i] }))
  const named = Object.fromEntries(buffers.map((buffer, i) => [frames[i].name, buffer]))
  const segments = Object.entries(given.segments ?? {}).map(
    ([name, instrs]): Segment => ({ name, phase: 'F', roles, buffers: named, instrs }),
  )
  const call = (segment: string): Step => ({
    kind: 'call',
    segment,
    block: -1,
    microbatch: 0,
    bind: frames.map((_, i) => i),
  })
  const stream = (steps: readonly Step[]): Stream => ({
    frames,
    resident: frames.flatMap(({ name }, i) => (given.transient?.includes(name) ? [] : [i])),
    steps,
    arena: given.arena ?? Math.max(0, ...frames.map(frame => frame.offset + frame.bytes)),
    peak: { parameters: 0, gradients: 0, optimizer: 0, activations: 0, workspace: 0, data: 0 },
  })
  const stages = given.mesh?.pp ?? 1
  const frameOf = (name: string) => frames.findIndex(frame => frame.name === name)
  const resultAt = (name: ResultName) => (frameOf(name) < 0 ? {} : { 0: frameOf(name) })
  const everyStream = <T>(held: T) => Object.fromEntries(Array.from({ length: stages }, (_, pp) => [pp, held]))
  const params = Object.entries(given.params ?? {}).map(
    ([name, { init, param, grad, states = {}, ...text }]): Param => {
      const { dims, layout } = tensorOf(text.dims)
      const held = { param: frameOf(param), grad: frameOf(grad), states: mapStates(states, frameOf) }
      return {
        name,
        dtype: 'f32',
        dims,
        init,
        kept: layout,
        state: layout,
        frames: everyStream(held),
      }
    },
  )
  const steps = given.steps ?? Array.from({ length: stages }, () => segments.map(({ name }) => call(name)))
  return {
    name: 'tiny',
    mesh,
    microbatches: given.microbatches ?? 1,
    stages,
    blocks: [{ name: 'block', kind: 'block', stage: 0 }],
    params,
    inputs: Object.entries(given.inputs ?? {}).map(([name, text]) => ({ name, dtype: 'f32', ...tensorOf(text) })),
    results: { loss: resultAt('loss'), count: resultAt('count'), normSquared: resultAt('normSquared') },
    ...(frameOf('taken') < 0 ? {} : { scalars: { taken: { start: 0, frames: everyStream(frameOf('taken')) } } }),
    segments: Object.fromEntries(segments.map(segment => [segment.name, segment])),
    streams: steps.map(stream),
  }
}

/** Runs a program once; returns what each rank's buffers held when they were last written, by 'rank:buffer'. */
export function runTiny(
  program: Program,
  inputs: Record<string, ArrayLike<number>> = {},
  options: Partial<Options> = {},
) {
  const seen: Record<string, number[]>[] = Array.from({ length: worldOf(program.mesh) }, () => ({}))
  const machine = interpreterOf(program, {
    seed: 1,
    ...options,
    observe: ({ rank, call, instr, read }) => {
      const { instrs } = program.segments[call.segment]
      const finished = (on: string) =>
        instrs.flatMap(other => (isCollective(other) && other.outs[0] === on ? other.outs : []))
      const written = 'outs' in instr ? instr.outs : instr.kind === 'wait' ? finished(instr.on) : [instr.out]
      for (const ref of written) seen[rank][ref] = [...read(ref)]
    },
  })
  const data: StepData = { inputs: name => inputs[name], lr: 0.1, step: 0 }
  const result = machine.step(data)
  return { machine, result, seen }
}
