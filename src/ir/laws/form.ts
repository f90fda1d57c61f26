/** W: names and indices mean something. The other laws assume it, so that they can be short. */
import {
  type Axis,
  type Dim,
  isAxis as isAxisName,
  isMeshAxis,
  type Layout,
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
import { signatures } from './signatures.js'
import { wholeNumbers } from './whole-numbers.js'

/** Kinds and dtypes come first, then numbers: what follows looks things up by them. */
export function form(program: Program): Finding[] {
  const strange = strangers(program)
  if (strange.length > 0) return strange
  const fractional = wholeNumbers(program)
  if (fractional.length > 0) return fractional
  const findings: Finding[] = []
  const say = (message: string, place: Place = {}) => findings.push({ law: 'W1', message, ...place })
  for (const message of outline(program)) say(message)
  for (const param of program.params) findings.push(...holders(param, program))
  findings.push(...resultForm(program), ...scalarForm(program))
  findings.push(...declarations(program))
  for (const [key, segment] of Object.entries(program.segments)) findings.push(...segmentForm(program, key, segment))
  const params = new Set(program.params.map(({ name }) => name))
  program.streams.forEach((stream, pipeline) => {
    for (const frame of stream.resident)
      if (!stream.frames[frame]) say(`resident frame ${frame} does not exist`, { pipeline })
    stream.steps.forEach((step, i) => {
      for (const message of stepForm(program, stream, step, params)) say(message, { pipeline, step: i })
      findings.push(...startForm(program, step, { pipeline, step: i }))
    })
  })
  return findings
}

/** Instructions and dtypes nobody knows, names no record can have: a program that comes as a value may have any. */
function strangers({ params, inputs, segments }: Program): Finding[] {
  const findings: Finding[] = []
  const say = (message: string, place: Place = {}) => findings.push({ law: 'W1', message, ...place })
  const checkName = (name: string, place?: Place) => {
    if (name in Object.prototype) say(`'${name}' cannot be a name`, place)
  }
  const checkTensor = (name: string, { dtype, dims }: Pick<Param, 'dtype' | 'dims'>, place?: Place) => {
    if (!Object.hasOwn(bytesPer, dtype)) say(`${name} is ${dtype}, which is not a dtype`, place)
    for (const dim of dims) checkName(dim.name, place)
  }
  for (const tensor of [...params, ...inputs]) checkTensor(tensor.name, tensor)
  for (const { name, dtype, gradient = dtype } of params)
    if (gradient !== dtype && gradient !== 'f32')
      say(`the gradient of ${name} is ${gradient}, but ops make it in f32 or in ${dtype}`)
  for (const [segment, { buffers, instrs }] of Object.entries(segments)) {
    checkName(segment)
    for (const [ref, buffer] of Object.entries(buffers)) {
      checkName(ref, { segment })
      checkTensor(`%${ref}`, buffer, { segment })
    }
    for (const [instr, { kind }] of instrs.entries())
      if (!isInstrKind(kind)) say(`${kind} is not an instruction`, { segment, instr })
  }
  return findings
}

/** The program as a whole. */
function outline(program: Program): string[] {
  const { mesh, streams, params, inputs, microbatches } = program
  const pipelines = sizeOf(mesh, 'pp')
  const steps = streams.reduce((sum, stream) => sum + stream.steps.length, 0)
  return [
    ...(streams.length === pipelines ? [] : [`${streams.length} streams, but pp is ${pipelines}`]),
    ...(microbatches > steps ? [`${microbatches} microbatches, but all streams together have ${steps} steps`] : []),
    ...mesh.axes.filter(({ name }) => !isAxisName(name)).map(({ name }) => `${name} is not an axis`),
    ...twice(mesh.axes).map(name => `the mesh has ${name} twice`),
    ...(mesh.zigzag && !mesh.axes.some(({ name }) => zigzagAxes(mesh, [name]).length > 0)
      ? [`zigzag is over ${mesh.zigzag.axis}, which the mesh does not have`]
      : []),
    ...cutDocuments(program),
    ...twice(params).map(name => `parameter ${name} is declared twice`),
    ...twice(inputs).map(name => `input ${name} is declared twice`),
  ]
}

/** Documents that are cut one by one begin where each rank gets two chunks of them, and their tokens have an order. */
function cutDocuments({ mesh, inputs, params }: Program): string[] {
  if (!mesh.zigzag?.documents) return []
  const { dim } = mesh.zigzag
  const ranks = mesh.axes.filter(({ name }) => zigzagAxes(mesh, [name]).length > 0).reduce((n, { size }) => n * size, 1)
  const positions = inputs.find(({ name }) => name === 'positions')
  const table = params.find(({ dims }) => dims.some(({ name }) => name === dim))
  const odd = (positions?.every ?? 1) % (2 * ranks) !== 0
  return [
    ...(odd ? [`documents are cut in 2 x ${ranks} chunks, but begin at multiples of ${positions?.every ?? 1}`] : []),
    ...(inputs.some(({ name }) => name === 'order') ? [] : ['documents are cut one by one, but tokens have no order']),
    ...(table ? [`documents are cut one by one, but ${table.name} is looked up by ${dim}`] : []),
  ]
}

const twice = (things: readonly { readonly name: string }[]): string[] => {
  const names = things.map(({ name }) => name)
  return names.length === new Set(names).size ? [] : names.filter((name, i) => names.indexOf(name) !== i)
}

/** Parameters and inputs, whose dims are whole. */
function declarations(program: Program): Finding[] {
  const say = (name: string, message: string): Finding => ({ law: 'W3', message: `${name}: ${message}` })
  const params = program.params.flatMap(({ name, dims, kept, state, apart, keptInside }) =>
    [
      ...[{ dims, layout: kept }, { dims, layout: state }, ...Object.values(apart ?? {})].flatMap(
        ({ dims, layout }) => [...layoutForm(program, dims, layout), ...atHome(layout)],
      ),
      ...viewForm(kept, keptInside),
    ].map(message => say(name, message)),
  )
  const inputs = program.inputs.flatMap(({ name, dims, layout }) =>
    [...layoutForm(program, dims, layout), ...(layout.flat ? ['an input is not flat'] : []), ...atHome(layout)].map(
      message => say(name, message),
    ),
  )
  return [...params, ...inputs]
}

const atHome = ({ turn, shares }: Layout): string[] =>
  turn || shares ? ['only what a segment computes goes round, or has shares'] : []

function layoutForm(program: Program, dims: readonly Dim[], layout: Layout): string[] {
  const { splits, partial, flat = [] } = layout
  const split = Object.entries(splits).filter(([, axes]) => axes.length > 0)
  const used = [...split.flatMap(([, axes]) => axes), ...flat, ...(Object.keys(partial) as Axis[])] // keys of a layout are axes
  const twice = used.find((axis, i) => used.indexOf(axis) !== i)
  const absent = split.find(([name]) => !dims.some(dim => dim.name === name))
  const foreign = used.find(axis => !isAxis(program, axis))
  return [
    ...(foreign === undefined ? [] : [`${foreign} is not an axis of the mesh`]),
    ...(twice === undefined ? [] : [`${twice} is named twice`]),
    ...(absent === undefined ? [] : [`${absent[0]} is split, but it is not a dim`]),
    ...(split.some(([, axes]) => axes.includes('pp')) ? ['a dim is split over pp'] : []),
    ...(flat.includes('pp') ? ['it is flat over pp'] : []),
    ...zigzagForm(program, split),
    ...roundForm(program, layout),
  ]
}

/** What goes round is split over the axes, before all others; of the shares that are needed some are there. */
function roundForm({ mesh }: Program, { splits, turn, shares }: Layout): string[] {
  const begins = (split: readonly Axis[], axes: readonly Axis[]) => split.slice(0, axes.length).join() === axes.join()
  const isTurn = (axes: readonly Axis[], by: number) => Number.isInteger(by) && by >= 0 && by < sizeOfAll(mesh, axes)
  const unsplit = turn && !Object.values(splits).some(split => begins(split, turn.axes))
  const wild = turn && (turn.by === 0 || !isTurn(turn.axes, turn.by))
  const ascends = (list: readonly number[]) => list.every((by, i) => i === 0 || list[i - 1] < by)
  const { axes = [], held = [], needed = [] } = shares ?? {}
  const some = held.length > 0 && held.length < needed.length && held.every(by => needed.includes(by))
  const sound = some && [held, needed].every(ascends) && needed.every(by => isTurn(axes, by))
  return [
    ...(unsplit ? [`it has gone round along ${turn.axes.join()}, which does not split it first`] : []),
    ...(wild ? [`${turn.by} is not a turn along ${turn.axes.join()}`] : []),
    ...(shares && !sound ? [`it cannot have the shares ${held.join()} of ${needed.join()} along ${axes.join()}`] : []),
  ]
}

/** The axis of a zigzag is the first that splits its dim. */
function zigzagForm({ mesh }: Program, split: readonly (readonly [string, readonly Axis[]])[]): string[] {
  const { zigzag } = mesh
  const axes = split.find(([name]) => name === zigzag?.dim)?.[1] ?? []
  const misplaced =
    zigzag && axes.slice(zigzagAxes(mesh, axes).length).some(axis => zigzagAxes(mesh, [axis]).length > 0)
  return misplaced ? [`${zigzag.dim} is cut in zigzag over ${zigzag.axis}, but over ${axes[0]} before`] : []
}

function holders(param: Param, { streams }: Program): Finding[] {
  return Object.entries(param.frames).flatMap(([pipeline, held]) =>
    [held.param, held.grad, ...Object.values(held.states)]
      .filter(frame => frame !== undefined)
      .filter(frame => !streams[Number(pipeline)]?.frames[frame])
      .map(frame => ({
        law: 'W1' as const,
        pipeline: Number(pipeline),
        message: `parameter ${param.name} lies in frame ${frame}, which stream ${pipeline} does not have`,
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
        message: `the ${name} lies in frame ${frame}, which stream ${pipeline} does not have`,
      })),
  )

const scalarForm = ({ scalars, streams }: Program): Finding[] =>
  scalarEntries(scalars).flatMap(([name, { start, frames }]) => [
    ...(Number.isFinite(start) ? [] : [{ law: 'W1' as const, message: `${name} starts as ${start}` }]),
    ...resultPlaces(frames)
      .filter(([pipeline, frame]) => !streams[pipeline]?.frames[frame])
      .map(([pipeline, frame]) => ({
        law: 'W1' as const,
        pipeline,
        message: `${name} lies in frame ${frame}, which stream ${pipeline} does not have`,
      })),
  ])

function segmentForm(program: Program, segment: string, body: Segment): Finding[] {
  const findings: Finding[] = Object.entries(body.buffers)
    .filter(([, buffer]) => !body.roles[buffer.role])
    .map(([ref, buffer]) => ({
      law: 'W1',
      segment,
      message: `%${ref} lies in role ${buffer.role} of ${body.roles.length}`,
    }))
  for (const [ref, { dims, layout, inside }] of Object.entries(body.buffers))
    for (const message of [...layoutForm(program, dims, layout), ...viewForm(layout, inside)])
      findings.push({ law: 'W3', segment, message: `%${ref}: ${message}` })
  body.instrs.forEach((instr, i) => {
    const say = (law: 'W1' | 'W2' | 'W3', message: string) => findings.push({ law, segment, instr: i, message })
    for (const ref of refsOf(instr))
      if (!Object.hasOwn(body.buffers, ref)) say('W1', `%${ref} is not a buffer of the segment`)
    for (const message of arity(instr)) say('W2', message)
    for (const axis of axesNamed(instr)) if (!isAxis(program, axis)) say('W1', `${axis} is not an axis of the mesh`)
    if (instr.kind === 'slice' && instr.axes.includes('pp')) say('W3', 'a slice along pp')
    if (instr.kind === 'load' && !program.inputs.some(({ name }) => name === instr.input))
      say('W1', `no input is named ${instr.input}`)
  })
  return findings
}

/** Axes of size 1 may be left out of the mesh, but the name must be one. */
const isAxis = ({ mesh }: Program, axis: string) => mesh.axes.some(({ name }) => name === axis) || isMeshAxis(axis)

const refsOf = (instr: Instr) => {
  const { reads, writes, finishes } = traitsOf(instr)
  return new Set([...reads, ...writes, ...(finishes === undefined ? [] : [finishes])])
}

function arity(instr: Instr): string[] {
  if (isCollective(instr)) {
    const [n, m] = [instr.ins.length, instr.outs.length]
    if (isRouted(instr)) return n === 4 && m === 1 ? [] : [`${instr.kind} takes an operand and its three routes`]
    return n > 0 && n === m ? [] : [`${instr.kind} takes as many operands as it gives results, not ${n} and ${m}`]
  }
  if (!isCompute(instr)) return []
  const { ins, outs } = signatures[instr.kind]
  const fits = (n: number, [least, most]: readonly [number, number]) => n >= least && n <= most
  return [
    ...(fits(instr.ins.length, ins) ? [] : [`${instr.kind} takes ${showRange(ins)} operands, not ${instr.ins.length}`]),
    ...(fits(instr.outs.length, outs)
      ? []
      : [`${instr.kind} gives ${showRange(outs)} results, not ${instr.outs.length}`]),
  ]
}

const showRange = ([least, most]: readonly [number, number]) =>
  least === most ? `${least}` : most === Number.POSITIVE_INFINITY ? `at least ${least}` : `${least} to ${most}`

const axesNamed = (instr: Instr): readonly string[] => {
  const group: Group | undefined = traitsOf(instr).meets
  const own: readonly string[] = instr.kind === 'slice' ? instr.axes : instr.kind === 'sumSquares' ? instr.once : []
  return [...own, ...(group?.axes ?? ([] as readonly Axis[]))]
}

/** A view is of a part. */
const viewForm = (layout: Layout, inside: true | undefined): string[] =>
  inside && !layout.flat ? ['it lies among all parts, but it is not flat'] : []

function stepForm(program: Program, stream: Stream, step: Step, params: ReadonlySet<string>): string[] {
  switch (step.kind) {
    case 'alloc':
    case 'free':
      return frameForm(stream, step.frame)
    case 'send':
    case 'recv':
      return [
        ...frameForm(stream, step.frame),
        ...(program.streams[step.peer] ? [] : [`no stream ${step.peer} to ${step.kind}`]),
      ]
    case 'wait':
      return []
    case 'call':
      return callForm(program, stream, step, params)
  }
}

const frameForm = (stream: Stream, frame: number) => (stream.frames[frame] ? [] : [`frame ${frame} does not exist`])

function callForm(program: Program, stream: Stream, call: Call, params: ReadonlySet<string>): string[] {
  if (!Object.hasOwn(program.segments, call.segment)) return [`no segment is named ${call.segment}`]
  const segment = program.segments[call.segment]
  const bound = call.bind.flatMap(frame => frameForm(stream, frame))
  if (call.bind.length !== segment.roles.length)
    bound.push(`${segment.name} has ${segment.roles.length} roles, ${call.bind.length} frames are bound`)
  if (call.block !== -1 && !program.blocks[call.block]) bound.push(`block ${call.block} does not exist`)
  if (!(Number.isInteger(call.microbatch) && call.microbatch >= -1 && call.microbatch < program.microbatches))
    bound.push(`microbatch ${call.microbatch} does not exist`)
  if (call.param !== undefined && !params.has(call.param)) bound.push(`no parameter is named ${call.param}`)
  return bound
}

function startForm({ segments }: Program, step: Step, place: Place): Finding[] {
  if (step.kind !== 'call' || step.tag === undefined || !Object.hasOwn(segments, step.segment)) return []
  const instr = segments[step.segment].instrs.findIndex(instr => !isCollective(instr))
  const message = `${step.segment} is called with the tag ${step.tag}, but this is not a collective`
  return instr < 0 ? [] : [{ law: 'W4', ...place, segment: step.segment, instr, message }]
}
