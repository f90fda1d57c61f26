/**
 * A step of the interpreter, written down: what every instruction of one rank left, to be walked through in both directions, and how
 * far that is from what one rank alone computes. The serial program calls its blocks and buffers by the same names, so a value's
 * counterpart is found by name, and its part by the layout.
 */
import {
  boot,
  compileJob,
  coordinatesOf,
  indexAlong,
  inputsOf,
  type Job,
  type Program,
  serialJob,
  sizeOfAll,
  syntheticData,
} from 'lockstep'

/** What an instruction left. */
export interface Frame {
  /** Index into the stream's steps, and into the segment's instructions. */
  readonly step: number
  readonly instr: number
  readonly name: string
  readonly dims: readonly { readonly name: string; readonly size: number }[]
  readonly values: Float64Array<ArrayBuffer>
  /** The farthest from one rank's; undefined: one rank has no such value, `why` says of what kind it is. */
  readonly off?: number
  readonly why?: 'addend' | 'part' | 'own'
}

export interface Tape {
  readonly frames: readonly Frame[]
  readonly loss: number
  readonly serialLoss: number
}

/** More than this is not kept: the page offers a narrower model. */
const mostBytes = 50e6

type Segment = Program['segments'][string]
type Buffer = NonNullable<Segment['buffers'][string]>
type Call = { readonly block: number; readonly segment: string; readonly microbatch: number }

const keyOf = (program: Program, { block, segment, microbatch }: Call, name: string): string =>
  `${program.blocks[block]?.name} ${program.segments[segment]?.phase} ${microbatch} ${name}`

type Instr = Segment['instrs'][number]

/** What is there when an instruction is done; a collective's result is there when it was waited for. */
function outOf(instr: Instr, { instrs }: Segment): string | undefined {
  if (instr.kind === 'wait') return instr.on
  const out = 'outs' in instr ? instr.outs[0] : undefined
  return instrs.some(other => other.kind === 'wait' && other.on === out) ? undefined : out
}

type Observe = NonNullable<Parameters<typeof boot>[1]['observe']>

function runOn(program: Program, job: Job, observe: Observe): number {
  const inputs = syntheticData(inputsOf(program), vocabOf(job), 1)(0)
  return boot(program, { seed: 1, observe }).step({ inputs, lr: 1e-3, step: 0 }).loss
}

const vocabOf = ({ model }: Job): number => ('vocab' in model ? model.vocab : 8)

/** What one rank computes, microbatch by microbatch as the ranks do, by block, phase and name. */
function serialValues(job: Job, pieces: number): { readonly loss: number; readonly values: Map<string, Float64Array> } {
  const program = compileJob(serialJob(job, pieces), undefined, { verify: false })
  const values = new Map<string, Float64Array>()
  const loss = runOn(program, job, ({ call, instr, read }) => {
    const out = outOf(instr, program.segments[call.segment]!)
    if (out !== undefined && call.block >= 0) values.set(keyOf(program, call, out), read(out))
  })
  return { loss, values }
}

type Coordinates = ReturnType<typeof coordinatesOf>

/** This rank's part of a whole value; undefined: it has another shape. */
function partIn(whole: Float64Array, { mesh }: Program, buffer: Buffer, at: Coordinates): Float64Array | undefined {
  const places = buffer.dims.map(({ name, size }) => {
    // Ranks that split the batch are pieces of their own.
    const axes = name === 'batch' ? [] : (buffer.layout.splits[name] ?? [])
    return { size, parts: sizeOfAll(mesh, axes), index: indexAlong(mesh, axes, at) }
  })
  const full = places.map(({ size, parts }) => size * parts)
  if (full.reduce((a, b) => a * b, 1) !== whole.length) return undefined
  const part = new Float64Array(places.reduce((count, { size }) => count * size, 1))
  for (let i = 0; i < part.length; i++) {
    let [rest, stride, from] = [i, 1, 0]
    for (let d = places.length - 1; d >= 0; d--) {
      const { size, index } = places[d]!
      from += ((rest % size) + index * size) * stride
      rest = Math.floor(rest / size)
      stride *= full[d]!
    }
    part[i] = whole[from]!
  }
  return part
}

/** How far two values are apart, beside the largest number in them. */
function distance(a: Float64Array, b: Float64Array): number {
  let [most, largest] = [0, Number.MIN_VALUE]
  for (let i = 0; i < a.length; i++) {
    most = Math.max(most, Math.abs(a[i]! - b[i]!))
    largest = Math.max(largest, Math.abs(b[i]!))
  }
  return most / largest
}

/** A result of a collective has its operand's name with a tick: one rank has the operand alone. */
const namesOf = (out: string): string[] => [out, out.replace(/'\d+$/, '')]

export function tapeOf(program: Program, job: Job, rank: number): Tape {
  const { dp, microbatches } = job.plan
  const serial = serialValues(job, dp * microbatches)
  const at = coordinatesOf(program.mesh, rank)
  const frames: Frame[] = []
  let bytes = 0
  const judge = (call: Call, out: string, values: Float64Array, buffer: Buffer): Pick<Frame, 'off' | 'why'> => {
    const { partial, flat, turn, shares } = buffer.layout
    if (Object.keys(partial).length > 0) return { why: 'addend' }
    if (flat || turn || shares || program.mesh.zigzag) return { why: 'part' }
    const piece = {
      ...call,
      microbatch: call.microbatch < 0 ? call.microbatch : (at.dp ?? 0) * microbatches + call.microbatch,
    }
    const whole = namesOf(out)
      .map(name => serial.values.get(keyOf(program, piece, name)))
      .find(Boolean)
    const mine = whole && partIn(whole, program, buffer, at)
    return mine ? { off: distance(values, mine) } : { why: 'own' }
  }
  const loss = runOn(program, job, ({ rank: who, call, step, instr, read }) => {
    const segment = program.segments[call.segment]!
    const out = outOf(instr, segment)
    if (who !== rank || out === undefined || bytes > mostBytes) return
    const [values, buffer] = [Float64Array.from(read(out)), segment.buffers[out]!]
    bytes += values.byteLength
    const where = { step, instr: segment.instrs.indexOf(instr), name: out, dims: buffer.dims }
    frames.push({ ...where, values, ...judge(call, out, values, buffer) })
  })
  return { frames, loss, serialLoss: serial.loss }
}
