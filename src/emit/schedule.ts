/** A stream as data for the runtime: frames by name, steps in order, and where each segment's tensors lie in frames. */
import type { Buffer, Program, Step, Stream } from '../ir/index.js'
import type { PythonFunction } from './functions.js'
import { outliving } from './usage.js'

/** A tensor in a frame: its place, its sizes as one rank holds it, its dtype. */
export type Place = readonly [offset: number, sizes: readonly number[], dtype: string]

/** What the buffers bound to each frame say lies in it. */
export function placesOf(program: Program, stream: Stream): Places {
  const found = stream.frames.map(() => new Map<number, Buffer>())
  for (const step of stream.steps) {
    if (step.kind !== 'call') continue
    for (const buffer of Object.values(program.segments[step.segment].buffers)) {
      const at = found[step.bind[buffer.role]]
      if (!at.has(buffer.offset)) at.set(buffer.offset, buffer)
    }
  }
  return found.map(buffers =>
    [...buffers]
      .sort(([a], [b]) => a - b)
      .map(([offset, { dims, dtype }]) => [offset, dims.map(({ size }) => size), dtype] as const),
  )
}

type Row = readonly unknown[]
type Places = readonly (readonly Place[])[]

/** `places` of every stream: what is sent is what the other side reads. */
export function scheduleText(
  program: Program,
  pp: number,
  functions: readonly PythonFunction[],
  places: readonly Places[],
): string {
  const stream = program.streams[pp]
  const { frames, resident, steps } = stream
  const made = outliving(stream)
  const happens = (step: Step) => !(step.kind === 'alloc' || step.kind === 'free') || made.has(step.frame)
  const names = new Map(functions.flatMap(({ name, segments }) => segments.map(segment => [segment, name] as const)))
  const rows = (items: readonly Row[]) => items.map(item => `    ${JSON.stringify(item)}`).join(',\n')
  const table = (name: string, items: readonly Row[]) => `  ${JSON.stringify(name)}: [\n${rows(items)}\n  ]`
  const tables = [
    table(
      'frames',
      frames.map(({ name, kind, bytes }) => [name, kind, bytes]),
    ),
    table(
      'resident',
      resident.map(frame => [frame, places[pp][frame]]),
    ),
    table(
      'segments',
      functions.map(({ name, phase, takes, gives }) => [name, phase, takes, gives]),
    ),
    table(
      'steps',
      steps.filter(happens).map(step => rowOf({ program, pp, places, names }, step)),
    ),
  ]
  return `{\n${tables.join(',\n')}\n}\n`
}

interface At {
  readonly program: Program
  readonly pp: number
  readonly places: readonly Places[]
  /** Of the function that a segment became. */
  readonly names: ReadonlyMap<string, string>
}

function rowOf({ program, pp, places, names }: At, step: Step): Row {
  switch (step.kind) {
    case 'alloc':
    case 'free':
      return [step.kind, step.frame]
    case 'call': {
      const whose = program.blocks[step.block]?.name ?? step.param ?? ''
      return ['call', names.get(step.segment), whose, step.microbatch, step.bind]
    }
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
  if (recv?.kind !== 'recv') throw new Error(`internal: nobody receives ${tag}`)
  return recv.frame
}
