/**
 * Peak memory of generated PyTorch. The memory plan counts gradients throughout the step, and all
 * logits; emitted functions take a gradient's memory with its first addend, and never more logits than losses.py says. Values
 * of a call live from the line that makes them to the last that reads them; a line that works element by element takes the
 * place of an operand nobody reads any more, as compiled code does.
 */
import { bytesPer, elementsOf, heldElements, type Mesh, opFacts } from '../base/index.js'
import {
  type Buffer,
  type Call,
  type Instr,
  type InstrOf,
  isCompute,
  type Program,
  type Ref,
  type Segment,
  type Stream,
  spaceOf,
  traitsOf,
} from '../ir/index.js'
import { type CrossEntropy, crossEntropyIn } from './cross-entropy.js'
import { inWritingOrder } from './fused-lines.js'
import { mergedHeads } from './merged-heads.js'
import { outliving } from './usage.js'

/** Logits that exist at once, in bytes (MAX_CHUNK_BYTES in runtime/losses.py). */
const mostLogits = 2 ** 30
/** GEMM workspace in bytes (WORKSPACE in runtime/gemm.py). */
const workspace = 32 * 2 ** 20

/** Bytes at the peak, of the ranks of each pipeline coordinate. */
export function heldBytes(program: Program): number[] {
  const merged = mergedHeads(program)
  return merged.streams.map(stream => new Holder(merged, stream).peak())
}

const bytesOf = (mesh: Mesh, { dims, layout, dtype }: Buffer): number =>
  heldElements(mesh, dims, layout) * bytesPer[dtype]

class Holder {
  readonly #program: Program
  readonly #stream: Stream
  readonly #kept: ReadonlySet<number>
  readonly #resident: ReadonlySet<number>
  readonly #lines = new Map<Segment, readonly Line[]>()
  /** Of frames that outlive a call: bytes by place. */
  readonly #frames: Map<number, number>[]
  #held = workspace
  #peak = 0

  constructor(program: Program, stream: Stream) {
    this.#program = program
    this.#stream = stream
    this.#kept = outliving(stream)
    this.#resident = new Set(stream.resident)
    this.#frames = stream.frames.map(() => new Map<number, number>())
    for (const frame of stream.resident)
      if (stream.frames[frame].kind !== 'gradients' && stream.frames[frame].space === undefined)
        this.#hold(frame, 0, stream.frames[frame].bytes)
  }

  peak(): number {
    for (const step of this.#stream.steps)
      if (step.kind === 'call') this.#call(step)
      else if (step.kind === 'free') this.#forget(step.frame)
      else if (step.kind === 'recv') this.#hold(step.frame, 0, this.#stream.frames[step.frame].bytes)
    return this.#peak
  }

  #hold(frame: number, offset: number, bytes: number): void {
    const before = this.#frames[frame].get(offset) ?? 0
    this.#frames[frame].set(offset, bytes)
    this.#held += bytes - before
    this.#peak = Math.max(this.#peak, this.#held)
  }

  #forget(frame: number): void {
    for (const bytes of this.#frames[frame].values()) this.#held -= bytes
    this.#frames[frame].clear()
  }

  /** What comes back from the host. */
  #move({ instrs, buffers, roles }: Segment, bind: Call['bind']): void {
    for (const ref of instrs.flatMap(instr => traitsOf(instr).writes)) {
      const { role, offset } = buffers[ref]
      if (spaceOf(roles[role]) === 'device' && !this.#resident.has(bind[role]))
        this.#hold(bind[role], offset, bytesOf(this.#program.mesh, buffers[ref]))
    }
  }

  #call({ segment: name, bind }: Call): void {
    const segment = this.#program.segments[name]
    if (segment.phase === 'move') this.#move(segment, bind)
    // What happens to parameters happens in place.
    if (!['F', 'I', 'W', 'B'].includes(segment.phase)) return
    const { buffers } = segment
    const frame = (ref: Ref) => bind[buffers[ref].role]
    const size = (ref: Ref) => bytesOf(this.#program.mesh, buffers[ref])
    const values = new Values(this.#linesOf(segment))
    for (const [at, { instr, writes, beside }] of this.#linesOf(segment).entries()) {
      if (isInPlace(instr)) values.die(at)
      for (const ref of writes) {
        const isTotal = instr.kind === 'accumulate' || this.#resident.has(frame(ref))
        if (!isTotal) values.make(ref, size(ref), this.#kept.has(frame(ref)))
        // The first addend is the total.
        else if (!this.#frames[frame(ref)].has(buffers[ref].offset))
          this.#hold(frame(ref), buffers[ref].offset, size(ref))
      }
      this.#peak = Math.max(this.#peak, this.#held + values.bytes + beside(size))
      values.die(at)
    }
    for (const [ref, bytes] of values.results) this.#hold(frame(ref), buffers[ref].offset, bytes)
  }

  #linesOf(segment: Segment): readonly Line[] {
    const lines = this.#lines.get(segment) ?? linesOf(segment)
    this.#lines.set(segment, lines)
    return lines
  }
}

/** What a call has made so far: its local variables, and what it will leave in frames. */
class Values {
  readonly results = new Map<Ref, number>()
  bytes = 0
  readonly #locals = new Map<Ref, number>()
  readonly #last: ReadonlyMap<Ref, number>

  constructor(lines: readonly Line[]) {
    this.#last = new Map(lines.flatMap(({ reads }, i) => reads.map(ref => [ref, i] as const)))
  }

  make(ref: Ref, bytes: number, stays: boolean): void {
    const into = stays ? this.results : this.#locals
    if (!into.has(ref)) this.bytes += bytes
    into.set(ref, bytes)
  }

  /** Variables that no line after this one reads. */
  die(at: number): void {
    for (const [ref, bytes] of this.#locals) {
      if ((this.#last.get(ref) ?? at) > at) continue
      this.bytes -= bytes
      this.#locals.delete(ref)
    }
  }
}

interface Line {
  readonly instr: Instr
  readonly reads: readonly Ref[]
  readonly writes: readonly Ref[]
  /** What it takes beside its results. */
  readonly beside: (size: (ref: Ref) => number) => number
}

function linesOf(segment: Segment): Line[] {
  const loss = crossEntropyIn(segment)
  const instrs = inWritingOrder(segment)
  const slope = instrs.find(({ kind }) => kind === 'swigluGrad')
  // Computed again by the kernel that makes its gradient.
  const next = slope && instrs[instrs.indexOf(slope) + 1]
  const again = next?.kind === 'swiglu' ? next : undefined
  return instrs.flatMap((instr): Line[] => {
    if (loss?.instrs.has(instr)) return instr === loss.loss ? [lossLine(segment, loss)] : []
    if (instr === again) return []
    const both = instr === slope && again ? [instr, again] : [instr]
    const [reads, writes] = (['reads', 'writes'] as const).map(key => both.flatMap(one => traitsOf(one)[key]))
    return [{ instr, reads, writes, beside: size => besideOf(instr, size, segment) }]
  })
}

/** In parts of all logits the gradient of the classes is added up in f32: where a product adds to it, it lies there twice. */
function lossLine({ buffers }: Segment, { loss, logits, input, weights }: CrossEntropy): Line {
  const [classes] = weights.outs
  return {
    instr: loss,
    reads: [...logits.ins, ...loss.ins],
    writes: [...loss.outs, ...input.outs, ...weights.outs],
    beside: size => {
      const parts = Math.ceil(size(logits.outs[0]) / mostLogits)
      const inFull = (size(classes) / bytesPer[buffers[classes].dtype]) * bytesPer.f32
      const sums = parts > 1 ? 2 * inFull - size(classes) : 0
      return Math.ceil(size(logits.outs[0]) / parts) + sums
    },
  }
}

/** Attention's gradient sums queries up in f32, and has those of keys and values for every query head. */
function besideOf(instr: Instr, size: (ref: Ref) => number, segment: Segment): number {
  if ((instr.kind === 'attention' || instr.kind === 'attentionGrad') && isWrittenOut(instr, segment))
    return writtenScores(instr, segment)
  if (instr.kind !== 'attentionGrad') return 0
  const [dq, dk] = instr.outs.map(size)
  return 2 * dq + (dk < dq ? 2 * dq : 0)
}

type Attention = InstrOf<'attention' | 'attentionGrad'>

/** No fused op takes numbers in full precision, or drops what every plan drops. */
const isWrittenOut = ({ ins, kind, dropout }: Attention, { buffers }: Segment): boolean =>
  dropout !== undefined || bytesPer[buffers[ins[kind === 'attention' ? 0 : 1]].dtype] > 2

/** Scores, their gradients or probabilities, and what is made of both; and a byte that says whether one is kept. */
function writtenScores({ ins, kind, dropout }: Attention, { buffers }: Segment): number {
  const [q, k] = ins.slice(kind === 'attention' ? 0 : 1).map(ref => buffers[ref])
  const keys = k.dims.find(({ name }) => name === 'seq')?.size ?? 1
  const pairs = elementsOf(q.dims.filter(({ name }) => name !== 'headDim')) * keys
  return pairs * (3 * bytesPer[q.dtype] + (dropout ? 1 : 0))
}

/** Kernels of our own leave their operands as they are; so do those that other than elementwise work is done in. */
const ofOurOwn: readonly Instr['kind'][] = ['swigluGrad', 'rmsNorm', 'rmsNormInputGrad', 'embedGrad', 'sumTo', 'join']

const isInPlace = (instr: Instr): boolean =>
  isCompute(instr) && opFacts[instr.kind].work === 'pass' && !ofOurOwn.includes(instr.kind)
