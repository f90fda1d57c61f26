/** W: names and indices mean something. The other laws assume it, so that they can be short. */
import {
  type Axis,
  type Dim,
  isAxis as isAxisName,
  isMeshAxis,
  type Layout,
  type Spoken,
  scalarEntries,
  sizeOf,
  sizeOfAll,
  zigzagAxes,
} from '../../base/index.js'
import { type Group, type Instr, isCollective, isCompute, isRouted } from '../instr.js'
import {
  bytesPer,
  type Call,
  type Param,
  type Program,
  resultPlaces,
  type Segment,
  type Step,
  type Stream,
} from '../program.js'
import { resultNames } from '../role.js'
import { isInstrKind, traitsOf } from '../traits.js'
import type { Finding, Place } from './law.js'
import { clause, tell, told } from './phrases.js'
import { signatures } from './signatures.js'
import { wholeNumbers } from './whole-numbers.js'

/** Kinds and dtypes come first, then numbers: what follows looks things up by them. */
export function form(program: Program): Finding[] {
  const strange = strangers(program)
  if (strange.length > 0) return strange
  const fractional = wholeNumbers(program)
  if (fractional.length > 0) return fractional
  const findings: Finding[] = []
  const say = (said: Spoken, place: Place = {}) => findings.push({ law: 'W1', ...tell(said), ...place })
  for (const said of outline(program)) say(said)
  for (const param of program.params) findings.push(...holders(param, program))
  findings.push(...resultForm(program), ...scalarForm(program))
  findings.push(...declarations(program))
  for (const [key, segment] of Object.entries(program.segments)) findings.push(...segmentForm(program, key, segment))
  const params = new Set(program.params.map(({ name }) => name))
  program.streams.forEach((stream, pipeline) => {
    for (const frame of stream.resident) if (!stream.frames[frame]) say(clause('W/resident', { frame }), { pipeline })
    stream.steps.forEach((step, i) => {
      for (const said of stepForm(program, stream, step, params)) say(said, { pipeline, step: i })
      findings.push(...startForm(program, step, { pipeline, step: i }))
    })
  })
  return findings
}

/** Instructions and dtypes nobody knows, names no record can have: a program that comes as a value may have any. */
function strangers({ params, inputs, segments }: Program): Finding[] {
  const findings: Finding[] = []
  const say = (said: Spoken, place: Place = {}) => findings.push({ law: 'W1', ...tell(said), ...place })
  const checkName = (name: string, place?: Place) => {
    if (name in Object.prototype) say(clause('W/name', { name }), place)
  }
  const checkTensor = (name: string, { dtype, dims }: Pick<Param, 'dtype' | 'dims'>, place?: Place) => {
    if (!Object.hasOwn(bytesPer, dtype)) say(clause('W/dtype', { name, dtype }), place)
    for (const dim of dims) checkName(dim.name, place)
  }
  for (const tensor of [...params, ...inputs]) checkTensor(tensor.name, tensor)
  for (const { name, dtype, gradient = dtype } of params)
    if (gradient !== dtype && gradient !== 'f32') say(clause('W/gradient', { name, gradient, dtype }))
  for (const [segment, { buffers, instrs }] of Object.entries(segments)) {
    checkName(segment)
    for (const [ref, buffer] of Object.entries(buffers)) {
      checkName(ref, { segment })
      checkTensor(`%${ref}`, buffer, { segment })
    }
    for (const [instr, { kind }] of instrs.entries())
      if (!isInstrKind(kind)) say(clause('W/instruction', { kind }), { segment, instr })
  }
  return findings
}

/** The program as a whole. */
function outline(program: Program): Spoken[] {
  const { mesh, streams, params, inputs, microbatches } = program
  const pipelines = sizeOf(mesh, 'pp')
  const steps = streams.reduce((sum, stream) => sum + stream.steps.length, 0)
  return [
    ...(streams.length === pipelines ? [] : [clause('W/streams', { streams: streams.length, pp: pipelines })]),
    ...(microbatches > steps ? [clause('W/few-steps', { microbatches, steps })] : []),
    ...mesh.axes.filter(({ name }) => !isAxisName(name)).map(({ name }) => clause('W/axis', { axis: name })),
    ...twice(mesh.axes).map(axis => clause('W/mesh-twice', { axis })),
    ...(mesh.zigzag && !mesh.axes.some(({ name }) => zigzagAxes(mesh, [name]).length > 0)
      ? [clause('W/zigzag', { axis: mesh.zigzag.axis })]
      : []),
    ...cutDocuments(program),
    ...twice(params).map(name => clause('W/parameter-twice', { name })),
    ...twice(inputs).map(name => clause('W/input-twice', { name })),
  ]
}

/** Documents that are cut one by one begin where each rank gets two chunks of them, and their tokens have an order. */
function cutDocuments({ mesh, inputs, params }: Program): Spoken[] {
  if (!mesh.zigzag?.documents) return []
  const { dim } = mesh.zigzag
  const ranks = mesh.axes.filter(({ name }) => zigzagAxes(mesh, [name]).length > 0).reduce((n, { size }) => n * size, 1)
  const positions = inputs.find(({ name }) => name === 'positions')
  const table = params.find(({ dims }) => dims.some(({ name }) => name === dim))
  const every = positions?.every ?? 1
  return [
    ...(every % (2 * ranks) === 0 ? [] : [clause('W/chunks', { ranks, every })]),
    ...(inputs.some(({ name }) => name === 'order') ? [] : [clause('W/order')]),
    ...(table ? [clause('W/table', { table: table.name, dim })] : []),
  ]
}

const twice = (things: readonly { readonly name: string }[]): string[] => {
  const names = things.map(({ name }) => name)
  return names.length === new Set(names).size ? [] : names.filter((name, i) => names.indexOf(name) !== i)
}

/** Parameters and inputs, whose dims are whole. */
function declarations(program: Program): Finding[] {
  const say = (name: string, what: Spoken): Finding => ({ law: 'W3', ...told('.of', { name, what }) })
  const params = program.params.flatMap(({ name, dims, kept, state, apart, keptInside }) =>
    [
      ...[{ dims, layout: kept }, { dims, layout: state }, ...Object.values(apart ?? {})].flatMap(
        ({ dims, layout }) => [...layoutForm(program, dims, layout), ...atHome(layout)],
      ),
      ...viewForm(kept, keptInside),
    ].map(what => say(name, what)),
  )
  const inputs = program.inputs.flatMap(({ name, dims, layout }) =>
    [...layoutForm(program, dims, layout), ...(layout.flat ? [clause('.flat-input')] : []), ...atHome(layout)].map(
      what => say(name, what),
    ),
  )
  return [...params, ...inputs]
}

const atHome = ({ turn, shares }: Layout): Spoken[] => (turn || shares ? [clause('.at-home')] : [])

function layoutForm(program: Program, dims: readonly Dim[], layout: Layout): Spoken[] {
  const { splits, partial, flat = [] } = layout
  const split = Object.entries(splits).filter(([, axes]) => axes.length > 0)
  const used = [...split.flatMap(([, axes]) => axes), ...flat, ...(Object.keys(partial) as Axis[])] // keys of a layout are axes
  const twice = used.find((axis, i) => used.indexOf(axis) !== i)
  const absent = split.find(([name]) => !dims.some(dim => dim.name === name))
  const foreign = used.find(axis => !isAxis(program, axis))
  return [
    ...(foreign === undefined ? [] : [clause('W/mesh-axis', { axis: foreign })]),
    ...(twice === undefined ? [] : [clause('.named-twice', { axis: twice })]),
    ...(absent === undefined ? [] : [clause('.split-absent', { dim: absent[0] })]),
    ...(split.some(([, axes]) => axes.includes('pp')) ? [clause('.split-pp')] : []),
    ...(flat.includes('pp') ? [clause('.flat-pp')] : []),
    ...zigzagForm(program, split),
    ...roundForm(program, layout),
  ]
}

/** What goes round is split over the axes, before all others; of the shares that are needed some are there. */
function roundForm({ mesh }: Program, { splits, turn, shares }: Layout): Spoken[] {
  const begins = (split: readonly Axis[], axes: readonly Axis[]) => split.slice(0, axes.length).join() === axes.join()
  const isTurn = (axes: readonly Axis[], by: number) => Number.isInteger(by) && by >= 0 && by < sizeOfAll(mesh, axes)
  const unsplit = turn && !Object.values(splits).some(split => begins(split, turn.axes))
  const wild = turn && (turn.by === 0 || !isTurn(turn.axes, turn.by))
  const ascends = (list: readonly number[]) => list.every((by, i) => i === 0 || list[i - 1] < by)
  const { axes = [], held = [], needed = [] } = shares ?? {}
  const some = held.length > 0 && held.length < needed.length && held.every(by => needed.includes(by))
  const sound = some && [held, needed].every(ascends) && needed.every(by => isTurn(axes, by))
  return [
    ...(unsplit ? [clause('.round-unsplit', { axes: turn.axes.join() })] : []),
    ...(wild ? [clause('.no-turn', { by: turn.by, axes: turn.axes.join() })] : []),
    ...(shares && !sound
      ? [clause('.cannot-share', { held: held.join(), needed: needed.join(), axes: axes.join() })]
      : []),
  ]
}

/** The axis of a zigzag is the first that splits its dim. */
function zigzagForm({ mesh }: Program, split: readonly (readonly [string, readonly Axis[]])[]): Spoken[] {
  const { zigzag } = mesh
  const axes = split.find(([name]) => name === zigzag?.dim)?.[1] ?? []
  const misplaced =
    zigzag && axes.slice(zigzagAxes(mesh, axes).length).some(axis => zigzagAxes(mesh, [axis]).length > 0)
  return misplaced ? [clause('.zigzag-after', { dim: zigzag.dim, axis: zigzag.axis, before: axes[0] })] : []
}

function holders(param: Param, { streams }: Program): Finding[] {
  return Object.entries(param.frames).flatMap(([pipeline, held]) =>
    [held.param, held.grad, ...Object.values(held.states)]
      .filter(frame => frame !== undefined)
      .filter(frame => !streams[Number(pipeline)]?.frames[frame])
      .map(frame => ({
        law: 'W1' as const,
        pipeline: Number(pipeline),
        ...told('W/frame-of', { what: clause('.parameter', { name: param.name }), frame, stream: pipeline }),
      })),
  )
}

const resultForm = ({ results, streams }: Program): Finding[] =>
  resultNames.flatMap(name =>
    resultPlaces(results[name])
      .filter(([pipeline, frame]) => !streams[pipeline]?.frames[frame])
      .map(([pipeline, frame]) => ({
        law: 'W1' as const,
        pipeline,
        ...told('W/frame-of', { what: clause('.result', { name }), frame, stream: pipeline }),
      })),
  )

const scalarForm = ({ scalars, streams }: Program): Finding[] =>
  scalarEntries(scalars).flatMap(([name, { start, frames }]) => [
    ...(Number.isFinite(start) ? [] : [{ law: 'W1' as const, ...told('W/start', { name, start }) }]),
    ...resultPlaces(frames)
      .filter(([pipeline, frame]) => !streams[pipeline]?.frames[frame])
      .map(([pipeline, frame]) => ({
        law: 'W1' as const,
        pipeline,
        ...told('W/frame-of', { what: name, frame, stream: pipeline }),
      })),
  ])

function segmentForm(program: Program, segment: string, body: Segment): Finding[] {
  const findings: Finding[] = Object.entries(body.buffers)
    .filter(([, buffer]) => !body.roles[buffer.role])
    .map(([ref, buffer]) => ({
      law: 'W1',
      segment,
      ...told('W/role', { ref, role: buffer.role, roles: body.roles.length }),
    }))
  for (const [ref, { dims, layout, inside }] of Object.entries(body.buffers))
    for (const what of [...layoutForm(program, dims, layout), ...viewForm(layout, inside)])
      findings.push({ law: 'W3', segment, ...told('.of', { name: `%${ref}`, what }) })
  body.instrs.forEach((instr, i) => {
    const say = (law: 'W1' | 'W2' | 'W3', said: Spoken) => findings.push({ law, segment, instr: i, ...tell(said) })
    for (const ref of refsOf(instr)) if (!Object.hasOwn(body.buffers, ref)) say('W1', clause('W/buffer', { ref }))
    for (const said of arity(instr)) say('W2', said)
    for (const axis of axesNamed(instr)) if (!isAxis(program, axis)) say('W1', clause('W/mesh-axis', { axis }))
    if (instr.kind === 'slice' && instr.axes.includes('pp')) say('W3', clause('W/slice'))
    if (instr.kind === 'load' && !program.inputs.some(({ name }) => name === instr.input))
      say('W1', clause('W/input', { input: instr.input }))
  })
  return findings
}

/** Axes of size 1 may be left out of the mesh, but the name must be one. */
const isAxis = ({ mesh }: Program, axis: string) => mesh.axes.some(({ name }) => name === axis) || isMeshAxis(axis)

const refsOf = (instr: Instr) => {
  const { reads, writes, finishes } = traitsOf(instr)
  return new Set([...reads, ...writes, ...(finishes === undefined ? [] : [finishes])])
}

function arity(instr: Instr): Spoken[] {
  if (isCollective(instr)) {
    const [n, m] = [instr.ins.length, instr.outs.length]
    if (isRouted(instr)) return n === 4 && m === 1 ? [] : [clause('W/routes', { kind: instr.kind })]
    return n > 0 && n === m ? [] : [clause('W/pairs', { kind: instr.kind, ins: n, outs: m })]
  }
  if (!isCompute(instr)) return []
  const { ins, outs } = signatures[instr.kind]
  const fits = (n: number, [least, most]: readonly [number, number]) => n >= least && n <= most
  return [
    ...(fits(instr.ins.length, ins)
      ? []
      : [clause('W/operands', { kind: instr.kind, range: rangeOf(ins), given: instr.ins.length })]),
    ...(fits(instr.outs.length, outs)
      ? []
      : [clause('W/results', { kind: instr.kind, range: rangeOf(outs), given: instr.outs.length })]),
  ]
}

const rangeOf = ([least, most]: readonly [number, number]) => {
  if (least === most) return least
  return most === Number.POSITIVE_INFINITY ? clause('.at-least', { least }) : clause('.range', { least, most })
}

const axesNamed = (instr: Instr): readonly string[] => {
  const group: Group | undefined = traitsOf(instr).meets
  const own: readonly string[] = instr.kind === 'slice' ? instr.axes : instr.kind === 'sumSquares' ? instr.once : []
  return [...own, ...(group?.axes ?? ([] as readonly Axis[]))]
}

/** A view is of a part. */
const viewForm = (layout: Layout, inside: true | undefined): Spoken[] =>
  inside && !layout.flat ? [clause('.inside-not-flat')] : []

function stepForm(program: Program, stream: Stream, step: Step, params: ReadonlySet<string>): Spoken[] {
  switch (step.kind) {
    case 'alloc':
    case 'free':
      return frameForm(stream, step.frame)
    case 'send':
    case 'recv':
      return [
        ...frameForm(stream, step.frame),
        ...(program.streams[step.peer] ? [] : [clause('W/peer', { stream: step.peer, kind: step.kind })]),
      ]
    case 'wait':
      return []
    case 'call':
      return callForm(program, stream, step, params)
  }
}

const frameForm = (stream: Stream, frame: number) => (stream.frames[frame] ? [] : [clause('W/frame', { frame })])

function callForm(program: Program, stream: Stream, call: Call, params: ReadonlySet<string>): Spoken[] {
  if (!Object.hasOwn(program.segments, call.segment)) return [clause('W/segment', { segment: call.segment })]
  const segment = program.segments[call.segment]
  const bound = call.bind.flatMap(frame => frameForm(stream, frame))
  if (call.bind.length !== segment.roles.length)
    bound.push(clause('W/roles', { segment: segment.name, roles: segment.roles.length, frames: call.bind.length }))
  if (call.block !== -1 && !program.blocks[call.block]) bound.push(clause('W/block', { block: call.block }))
  if (!(Number.isInteger(call.microbatch) && call.microbatch >= -1 && call.microbatch < program.microbatches))
    bound.push(clause('W/microbatch', { microbatch: call.microbatch }))
  if (call.param !== undefined && !params.has(call.param)) bound.push(clause('W/parameter', { param: call.param }))
  return bound
}

function startForm({ segments }: Program, step: Step, place: Place): Finding[] {
  if (step.kind !== 'call' || step.tag === undefined || !Object.hasOwn(segments, step.segment)) return []
  const instr = segments[step.segment].instrs.findIndex(instr => !isCollective(instr))
  const { segment, tag } = step
  return instr < 0 ? [] : [{ law: 'W4', ...place, segment, instr, ...told('W/starts', { segment, tag }) }]
}
