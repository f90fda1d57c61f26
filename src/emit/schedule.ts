/** A stage's schedule as data for the runtime: buffers by name, steps in order, and the buffers of each function's tensors. */
import { type Dim, heldElements, lineElements } from '../base/index.js'
import type { Buffer, Call, Program, Step, Stream } from '../ir/index.js'
import type { PythonFunction } from './functions.js'
import { fusedDims } from './fused-lines.js'
import { type FusedBuffers, isWithin } from './fused-params.js'
import { outliving } from './usage.js'

/** A tensor in a frame: its place, its sizes as one rank holds it, its dtype, and for how many elements there must be room. */
export type Place = readonly [offset: number, sizes: readonly number[], dtype: string, room?: number]

/** What the buffers bound to each frame say lies in it. */
export function placesOf(program: Program, stream: Stream): Places {
  const found = stream.frames.map(() => new Map<number, Buffer>())
  for (const step of stream.steps) {
    if (step.kind !== 'call') continue
    for (const buffer of Object.values(program.segments[step.segment].buffers)) {
      const at = found[step.bind[buffer.role]]
      const known = at.get(buffer.offset)
      // Room for all parts is what the own part inside the whole asks for.
      if (!known || (buffer.inside && !known.inside)) at.set(buffer.offset, buffer)
    }
  }
  return found.map(buffers =>
    [...buffers].sort(([a], [b]) => a - b).map(([offset, buffer]) => placeOf(program, offset, buffer)),
  )
}

function placeOf({ mesh }: Program, offset: number, { dims, dtype, layout, inside }: Buffer): Place {
  const held = heldElements(mesh, dims, layout)
  const isPart = layout.flat !== undefined && !inside
  const sizes = isPart ? [held] : dims.map(({ size }) => size)
  return inside ? [offset, sizes, dtype, lineElements(mesh, dims, layout)] : [offset, sizes, dtype]
}

type Row = readonly unknown[]
type Places = readonly (readonly Place[])[]

/** `places` of every stream: what is sent is what the other side reads; `beside`: frames that lie side by side. */
export function scheduleText(
  program: Program,
  pp: number,
  functions: readonly PythonFunction[],
  places: readonly Places[],
  beside: ReadonlyMap<number, FusedBuffers>,
): string {
  const stream = program.streams[pp]
  const { frames, resident, steps } = stream
  const made = outliving(stream)
  const happens = (step: Step) => !(step.kind === 'alloc' || step.kind === 'free') || made.has(step.frame)
  const of = new Map(functions.flatMap(one => one.segments.map(segment => [segment, one] as const)))
  const rows = (items: readonly Row[]) => items.map(item => `    ${JSON.stringify(item)}`).join(',\n')
  const table = (name: string, items: readonly Row[]) => `  ${JSON.stringify(name)}: [\n${rows(items)}\n  ]`
  const padded = paddedRows(places[pp], beside)
  const tables = [
    table(
      'buffers',
      frames.map(({ name, kind, bytes, space }) => [name, kind, bytes, ...(space ? [space] : [])]),
    ),
    table(
      'persistent',
      resident.map(frame => [frame, fusedPlaces(places[pp][frame], beside.get(frame), frame)]),
    ),
    ...(beside.size > 0 ? [table('fused', fusedRows(frames, beside, false))] : []),
    ...(beside.size > 0 && functions.some(({ apart }) => apart)
      ? [table('fused_gradients', fusedRows(frames, beside, true))]
      : []),
    ...(padded.length > 0 ? [table('padded', padded)] : []),
    table(
      'functions',
      functions.map(({ name, phase, takes, gives, lists, apart }) => [
        ...[name, phase, takes, gives, lists],
        ...(apart ? [true] : []),
      ]),
    ),
    table(
      'steps',
      bundled(steps.filter(happens), of).flatMap(step => rowsOf({ program, pp, places, of, beside }, step)),
    ),
  ]
  return `{\n${tables.join(',\n')}\n}\n`
}

/** Tensors of which a function reads or writes its shard in place: they need capacity for padded shards. */
function paddedRows(places: Places, beside: ReadonlyMap<number, FusedBuffers>): Row[] {
  return places.flatMap((tensors, frame) =>
    beside.has(frame)
      ? []
      : tensors
          .filter(([, sizes, , room = 0]) => room > sizes.reduce((product, size) => product * size, 1))
          .map(([offset, , , room]) => [frame, offset, room]),
  )
}

/** The first of those that lie side by side has room for all, the others have none. */
function fusedPlaces(places: readonly Place[], row: FusedBuffers | undefined, frame: number): readonly Place[] {
  if (row === undefined) return places
  if (row.frames[0] !== frame) return []
  const [[offset, , dtype]] = places
  return [[offset, [...row.rows, ...fusedDims(row.widths)].map(({ size }) => size), dtype]]
}

/** What stays from step to step, or gradients, which are made anew. */
function fusedRows(frames: Stream['frames'], beside: ReadonlyMap<number, FusedBuffers>, gradients: boolean): Row[] {
  const sizes = (dims: readonly Dim[]) => dims.map(({ size }) => size)
  return [...new Set(beside.values())]
    .filter(row => (frames[row.frames[0]].kind === 'gradients') === gradients)
    .map(row => [row.frames, row.widths.map(sizes)])
}

type Functions = ReadonlyMap<string, PythonFunction>

/** Calls of one function that takes lists. */
interface Bundle {
  readonly kind: 'each'
  readonly function: PythonFunction
  readonly calls: Call[]
}

/** Calls that serve one parameter each become one for all of them, as long as no step of another kind lies between. */
function bundled(steps: readonly Step[], of: Functions): (Step | Bundle)[] {
  const done: (Step | Bundle)[] = []
  let open: Bundle[] = []
  for (const step of steps) {
    const called = step.kind === 'call' ? of.get(step.segment) : undefined
    if (step.kind !== 'call' || !called?.lists.length) {
      open = []
      done.push(step)
      continue
    }
    // A norm must not move before what begins a gradient, nor an update before a norm.
    if (open[0]?.function.phase !== called.phase) open = []
    let bundle = open.find(bundle => bundle.function === called)
    if (!bundle) {
      bundle = { kind: 'each', function: called, calls: [] }
      open.push(bundle)
      done.push(bundle)
    }
    bundle.calls.push(step)
  }
  return done
}

interface At {
  readonly program: Program
  readonly pp: number
  readonly places: readonly Places[]
  /** The function that a segment became. */
  readonly of: Functions
  readonly beside: ReadonlyMap<number, FusedBuffers>
}

/** None for what is done to a parameter within another: that one's row does it, unless each is taken by itself. */
function rowsOf(at: At, step: Step | Bundle): Row[] {
  const isAlone = (call: Call) => call.param === undefined || !call.bind.some(frame => isWithin(at.beside, frame))
  if (step.kind === 'call') return isAlone(step) ? [rowOf(at, step)] : []
  if (step.kind !== 'each') return [rowOf(at, step)]
  const names = step.calls.map(({ param }) => param ?? '')
  const { name, apart } = step.function
  const binds = step.calls.filter(call => apart || isAlone(call)).map(({ bind }) => bind)
  return binds.length > 0 ? [['each', name, names, binds]] : []
}

function rowOf({ program, pp, places, of }: At, step: Step): Row {
  const whose = ({ block, param }: Call) => program.blocks[block]?.name ?? param ?? ''
  switch (step.kind) {
    case 'alloc':
    case 'free':
      return [step.kind, step.frame]
    case 'call':
      if (step.tag !== undefined) return ['start', of.get(step.segment)!.name, step.bind, step.tag]
      return ['call', of.get(step.segment)!.name, whose(step), step.microbatch, step.bind]
    case 'recv':
      return ['recv', step.frame, step.peer, step.tag, places[pp][step.frame]]
    case 'send':
      return ['send', step.frame, step.peer, step.tag, places[step.peer][receiverOf(program, pp, step)]]
    case 'wait':
      return ['wait', step.tag]
  }
}

function receiverOf(program: Program, pp: number, { peer, tag }: Extract<Step, { kind: 'send' }>): number {
  const recv = program.streams[peer].steps.find(step => step.kind === 'recv' && step.tag === tag && step.peer === pp)
  if (recv?.kind !== 'recv') throw new Error(`internal: no stage receives ${tag}`)
  return recv.frame
}
