/** The text form, written: sections for the whole, then segments, then streams; one line per thing. */
import { type Init, initNumber, type Mesh, scalarEntries, stateEntries } from '../../base/index.js'
import type { Instr } from '../instr.js'
import {
  type Buffer,
  type DataInput,
  type Param,
  type Program,
  resultPlaces,
  type Segment,
  type Step,
  type Stream,
} from '../program.js'
import { resultNames, showRole } from '../role.js'
import { attributes, type Codec, counts, name, number, showLayout, showShaped, word } from './codec.js'
import { showPeak, showSpace } from './rooms.js'

/** The text form of a program. */
export const print = (program: Program): string =>
  [
    `program ${word.show(program.name)}`,
    `mesh ${program.mesh.axes.map(({ name: axis, size }) => `${axis}:${size}`).join(' ')}`.trimEnd(),
    ...(program.mesh.zigzag ? [printZigzag(program.mesh.zigzag)] : []),
    `microbatches ${program.microbatches}`,
    `stages ${program.stages}`,
    ...(program.evaluates ? ['evaluates'] : []),
    ...program.blocks.map(b => `block ${word.show(b.name)} kind=${word.show(b.kind)} stage=${b.stage}`),
    ...program.inputs.map(printInput),
    ...printResults(program),
    ...printScalars(program),
    ...program.params.flatMap(printParam),
    ...Object.entries(program.segments).flatMap(([key, segment]) => ['', ...printSegment(segment, key)]),
    ...program.streams.flatMap((stream, pipeline) => ['', ...printStream(stream, pipeline)]),
    '',
  ].join('\n')

const printZigzag = ({ dim, axis, documents }: NonNullable<Mesh['zigzag']>): string =>
  `zigzag ${dim}/${axis}${documents ? ' documents' : ''}`

const printInput = (input: DataInput): string =>
  `input ${word.show(input.name)} ${input.dtype} ${showShaped(input)}${input.every === undefined ? '' : ` every=${input.every}`}`

/** `result loss 0:12 3:12`: on pipeline coordinates 0 and 3, in frame 12. */
const printResults = ({ results }: Program): string[] =>
  resultNames
    .filter(result => resultPlaces(results[result]).length > 0)
    .map(result => ['result', result, ...printPlaces(results[result])].join(' '))

/** `scalar taken 0 0:13 1:9`: what it is before the first step, and where it lies. */
const printScalars = ({ scalars }: Program): string[] =>
  scalarEntries(scalars).map(([scalar, { start, frames }]) =>
    ['scalar', scalar, number.show(start), ...printPlaces(frames)].join(' '),
  )

const printPlaces = (frames: Parameters<typeof resultPlaces>[0]): string[] =>
  resultPlaces(frames).map(place => place.join(':'))

const printInit = (init: Init): string => {
  const of = initNumber(init)
  return of === undefined ? init.kind : `${init.kind} ${number.show(of)}`
}

const printParam = (param: Param): string[] => [
  `param ${word.show(param.name)} ${param.dtype === 'f32' ? '' : `${param.dtype} `}${showShaped({ dims: param.dims, layout: { splits: {}, partial: {} } })}`,
  `  init ${printInit(param.init)}`,
  ...(param.frozen ? ['  frozen'] : []),
  ...(param.gradient === undefined ? [] : [`  gradient ${param.gradient}`]),
  ...(['kept', 'state'] as const).map(
    use => `  ${use} ${showLayout(param[use])}${use === 'kept' && param.keptInside ? ' inside' : ''}`,
  ),
  ...stateEntries(param.apart ?? {}).map(([state, of]) => `  state ${state} ${of.dtype} ${showShaped(of)}`),
  ...Object.entries(param.frames).map(
    ([pipeline, f]) =>
      `  held ${pipeline} param=${f.param}${f.grad === undefined ? '' : ` grad=${f.grad}`}${stateEntries(f.states)
        .map(([state, frame]) => ` ${state}=${frame}`)
        .join('')}`,
  ),
]

/** The key is written too where it is not the segment's name. */
export const printSegment = (segment: Segment, key = segment.name): string[] => [
  `segment ${word.show(segment.name)} phase=${segment.phase}${key === segment.name ? '' : ` key=${word.show(key)}`}`,
  ...segment.roles.map(role => `  role ${word.show(showRole(role.name))} ${role.kind} ${role.bytes}${showSpace(role)}`),
  ...Object.entries(segment.buffers).map(([ref, buffer]) => `  buffer ${showRef(ref)} ${printBuffer(buffer, segment)}`),
  ...segment.instrs.map(instr => `  ${printInstr(instr)}`),
]

const printBuffer = (buffer: Buffer, { roles }: Segment): string => {
  const role = roles[buffer.role]
  const called = role && showRole(role.name)
  const unique = roles.filter(other => showRole(other.name) === called).length === 1
  return `${buffer.dtype} @${unique ? name.show(called) : `#${buffer.role}`}+${buffer.offset} ${showShaped(buffer)}${buffer.inside ? ' inside' : ''}`
}

const showRef = (ref: string) => `%${name.show(ref)}`

/** `%z = all-gather %y dim=seq over=tp` */
export function printInstr(instr: Instr): string {
  if (instr.kind === 'wait') return `wait ${showRef(instr.on)}`
  const outs = 'outs' in instr ? instr.outs : [instr.out]
  const ins = 'ins' in instr ? instr.ins : 'in' in instr ? [instr.in] : []
  const codecs = attributes[instr.kind] as Record<string, Codec<unknown>> // the table gives each kind its own
  const written = Object.entries(instr)
    .filter(([key, value]) => codecs[key] !== undefined && value !== undefined)
    .filter(([key]) => instr.kind !== 'move' || key !== 'group') // it is alone
    .map(([key, value]) => `${key === 'group' ? 'over' : key}=${codecs[key].show(value)}`)
  return [...outs.map(showRef), '=', instr.kind, ...ins.map(showRef), ...written].join(' ')
}

const printStream = (stream: Stream, pipeline: number): string[] => [
  `stream ${pipeline} arena=${stream.arena}`,
  `  peak ${showPeak(stream)}`,
  ...Object.entries(stream.elsewhere ?? {}).map(
    ([space, room]) => `  elsewhere ${space} arena=${room.arena} ${showPeak(room)}`,
  ),
  ...stream.frames.map((f, i) => `  frame ${i} ${word.show(f.name)} ${f.kind} ${f.bytes} @${f.offset}${showSpace(f)}`),
  `  resident ${counts.show(stream.resident)}`.trimEnd(),
  ...stream.steps.map(step => `  ${printStep(step)}`),
]

export function printStep(step: Step): string {
  switch (step.kind) {
    case 'alloc':
    case 'free':
      return `${step.kind} ${step.frame}`
    case 'send':
      return `send ${step.frame} to=${step.peer} tag=${word.show(step.tag)}`
    case 'recv':
      return `recv ${step.frame} from=${step.peer} tag=${word.show(step.tag)}`
    case 'wait':
      return `wait tag=${word.show(step.tag)}`
    case 'call': {
      const of = step.param === undefined ? '' : ` param=${word.show(step.param)}`
      const tag = step.tag === undefined ? '' : ` tag=${word.show(step.tag)}`
      return `call ${word.show(step.segment)} block=${step.block} microbatch=${step.microbatch} bind=${counts.show(step.bind)}${of}${tag}`
    }
  }
}
