/**
 * The activations that a rank holds at their peak, tensor by tensor, beside the terms of s b h (34 + 5 a s / h), which Korthikanti et al.
 * 2022 (arXiv 2205.05198, section 4.1) add up for a layer. A tensor stands for the term of the op that reads it in the forward pass:
 * what is kept is what its backward reads again. The bytes are those of the program, and add up to the peak.
 */
import { bytesPer } from '../base/index.js'
import {
  type Call,
  type Frame,
  type Instr,
  isCollective,
  type Kind,
  type Program,
  type Segment,
  type Stream,
  spaceOf,
} from '../ir/index.js'
import type { Job } from '../plan/index.js'

/** A term of a formula: what the book has for it, and the tensors of the program that stand there. */
export interface TermWhy {
  readonly kind: Kind
  readonly term: string
  /** As it is written, with its divisors. Absent: the formula has no such term. */
  readonly formula?: string
  readonly textbook?: number
  readonly exact: number
  /** The tensors, each by the name that the program has for it. */
  readonly tensors: readonly string[]
  /** Why the two differ, where they do. */
  readonly because?: string
}

const bookTerms = {
  norms: { of: 'inputs of the two norms', factor: 4, inside: false },
  qkv: { of: 'input of q, k and v', factor: 2, inside: false },
  queriesKeys: { of: 'queries and keys', factor: 4, inside: true },
  scores: { of: 'softmax, dropout mask and output', factor: 0, inside: true },
  values: { of: 'values', factor: 2, inside: true },
  projection: { of: 'input of the projection', factor: 2, inside: true },
  first: { of: 'input of the first linear', factor: 2, inside: false },
  activation: { of: 'input of GeLU', factor: 8, inside: true },
  second: { of: 'input of the second linear', factor: 8, inside: true },
  masks: { of: 'masks of two dropouts', factor: 2, inside: false },
} as const
type BookTerm = keyof typeof bookTerms
const bookNames = Object.keys(bookTerms) as readonly BookTerm[] // its own keys

/** What no term of the book stands for. */
const others = {
  head: 'embedding and head, not in the formula',
  handed: 'gradients to the previous layer',
  call: 'temporaries of one call',
  other: 'kept in addition to the formula',
} as const
type OtherTerm = keyof typeof others

type Held = Map<BookTerm | OtherTerm, { bytes: number; readonly names: Set<string> }>

export function activationTerms(job: Job, program: Program, pp: number): TermWhy[] {
  const held = heldAtPeak(program, program.streams[pp])
  const book = bookOf(job, pp)
  const exactOf = (term: BookTerm | OtherTerm) => ({
    exact: held.get(term)?.bytes ?? 0,
    tensors: [...(held.get(term)?.names ?? [])],
  })
  const named = book
    ? bookNames.map((term): TermWhy => {
        const { formula, bytes } = book(term)
        const exact = exactOf(term)
        const because = Math.abs(exact.exact - bytes) > 0.005 * bytes ? reasons[term](job) : undefined
        const of = bookTerms[term].of
        return { kind: 'activations', term: of, formula, textbook: bytes, ...exact, ...(because && { because }) }
      })
    : bookNames.map((term): TermWhy => ({ kind: 'activations', term: bookTerms[term].of, ...exactOf(term) }))
  const rest = (Object.keys(others) as OtherTerm[]) // its own keys
    .map((term): TermWhy => ({ kind: 'activations', term: others[term], ...exactOf(term) }))
  return [...named, ...rest].filter(({ exact, textbook }) => exact > 0 || (textbook ?? 0) > 0)
}

/** The frames of activations that are there when these take most, each as the terms of its tensors. */
function heldAtPeak(program: Program, stream: Stream): Held {
  const held: Held = new Map()
  const add = (term: BookTerm | OtherTerm, name: string, bytes: number) => {
    const known = held.get(term) ?? { bytes: 0, names: new Set() }
    known.names.add(name)
    held.set(term, { ...known, bytes: known.bytes + bytes })
  }
  const bound = bindingsOf(program, stream)
  for (const index of liveAtPeak(stream)) {
    const frame = stream.frames[index]
    const binding = bound.get(index)
    if (binding) shareOut(program, frame, binding, add)
    else add('other', frame.name, frame.bytes)
  }
  return held
}

function liveAtPeak({ steps, frames, resident }: Stream): ReadonlySet<number> {
  const counts = (index: number) => frames[index].kind === 'activations' && spaceOf(frames[index]) === 'device'
  const live = new Set(resident.filter(counts))
  let bytes = [...live].reduce((sum, index) => sum + frames[index].bytes, 0)
  let most = { bytes, live: new Set(live) }
  for (const step of steps) {
    if ((step.kind !== 'alloc' && step.kind !== 'free') || !counts(step.frame)) continue
    bytes += step.kind === 'alloc' ? frames[step.frame].bytes : -frames[step.frame].bytes
    if (step.kind === 'alloc') live.add(step.frame)
    else live.delete(step.frame)
    if (bytes > most.bytes) most = { bytes, live: new Set(live) }
  }
  return most.live
}

interface Binding {
  readonly segment: Segment
  readonly role: number
  readonly call: Call
}

/** The call that says most about a frame: the forward that keeps it or is handed it, else the first. */
function bindingsOf({ segments }: Program, { steps, frames }: Stream): ReadonlyMap<number, Binding> {
  const bound = new Map<number, Binding>()
  for (const call of steps) {
    if (call.kind !== 'call') continue
    const segment = segments[call.segment]
    for (const [role, frame] of call.bind.entries()) {
      if (frames[frame]?.kind !== 'activations') continue
      const known = bound.get(frame)
      if (!known || (!tells(known) && tells({ segment, role, call }))) bound.set(frame, { segment, role, call })
    }
  }
  return bound
}

const tells = ({ segment, role }: Binding): boolean =>
  segment.phase === 'F' && ['keep', 'in'].includes(segment.roles[role].name.is)

type Add = (term: BookTerm | OtherTerm, name: string, bytes: number) => void

function shareOut({ blocks }: Program, frame: Frame, binding: Binding, add: Add): void {
  const { segment, role, call } = binding
  const { is } = segment.roles[role].name
  const isLayer = /\.\d+$/.test(blocks[call.block]?.name ?? '')
  if (!tells(binding)) {
    add(is === 'din' || is === 'dout' ? 'handed' : is === 'scratch' ? 'call' : 'other', segment.name, frame.bytes)
    return
  }
  let left = frame.bytes
  for (const [ref, buffer] of Object.entries(segment.buffers)) {
    if (buffer.role !== role || left === 0) continue
    const bytes = Math.min(left, bytesPer[buffer.dtype] * buffer.dims.reduce((n, { size }) => n * size, 1))
    left -= bytes
    add(isLayer ? (termOf(segment, ref) ?? 'other') : 'head', isLayer ? ref : `${segment.name} ${ref}`, bytes)
  }
  if (left > 0) add(isLayer ? 'other' : 'head', 'room between tensors', left)
}

/** Ops that hand on what they are given, as far as who reads it goes. */
const passing: ReadonlySet<string> = new Set(['rope', 'add', 'dropout', 'join', 'quantize', 'slice'])

/** By who reads it: at once, or behind what only passes it on; a statistic, that nobody reads forward, by who makes it. */
function termOf(segment: Segment, ref: string, seen: ReadonlySet<string> = new Set([ref])): BookTerm | undefined {
  const readers = segment.instrs.filter(instr => 'ins' in instr && instr.ins.includes(ref))
  for (const reader of readers) {
    const term = readAs(segment, reader, ref)
    if (term) return term
  }
  for (const reader of readers) {
    if (!('outs' in reader) || !(isCollective(reader) || passing.has(reader.kind))) continue
    for (const out of reader.outs.filter(out => !seen.has(out))) {
      const term = termOf(segment, out, new Set([...seen, ...reader.outs]))
      if (term) return term
    }
  }
  const maker = segment.instrs.find(instr => 'outs' in instr && instr.outs.indexOf(ref) > 0)
  return maker?.kind.startsWith('attention') ? 'scores' : maker?.kind.endsWith('Norm') ? 'norms' : undefined
}

function readAs({ buffers }: Segment, instr: Instr, ref: string): BookTerm | undefined {
  if (!('ins' in instr) || isCollective(instr)) return undefined
  const has = (name: string, ...dims: string[]) => buffers[name].dims.some(dim => dims.includes(dim.name))
  const isOfHeads = has(ref, 'headDim', 'vHeadDim')
  switch (instr.kind) {
    case 'layerNorm':
    case 'rmsNorm':
      return instr.ins[0] !== ref ? undefined : isOfHeads ? 'queriesKeys' : 'norms'
    case 'attention':
      return instr.ins.indexOf(ref) < 2 ? 'queriesKeys' : instr.ins[2] === ref ? 'values' : undefined
    case 'gelu':
    case 'swiglu':
    case 'weightedSwiglu':
      return 'activation'
    case 'contract':
    case 'scaledContract':
      if (has(ref, 'ffn', 'sharedFfn')) return 'second'
      if (isOfHeads) return 'projection'
      return has(instr.outs[0], 'headDim') ? 'qkv' : has(instr.outs[0], 'ffn', 'sharedFfn') ? 'first' : undefined
    default:
      return undefined
  }
}

/** Each term of all layers of a rank and all microbatches under way, in bytes, as the paper divides it. */
function bookOf({ model, training, plan }: Job, pp: number) {
  if (model.family === 'mlp') return undefined
  const { tp, cp, sequenceParallel, recompute } = plan
  const sbh = (training.seq / cp) * (training.globalBatch / plan.dp / plan.microbatches) * model.embed
  const times = Math.floor(model.layers / plan.pp) * Math.min(plan.microbatches, plan.pp - pp)
  const wide = (plan.precision === 'f32' ? bytesPer.f32 : bytesPer.bf16) / bytesPer.bf16
  return (term: BookTerm) => {
    const { factor, inside } = bookTerms[term]
    const by = tp > 1 && (inside || sequenceParallel) ? ` / tp ${tp}` : ''
    const kept = recompute === 'full' ? (term === 'norms' ? 2 : 0) : factor
    const isScores = term === 'scores' && recompute !== 'selective' && recompute !== 'full'
    const each = isScores ? (5 * model.heads * training.seq) / model.embed : kept
    const words = isScores ? '5 a s / h' : String(kept)
    return {
      bytes: (wide * each * sbh * times) / (by === '' ? 1 : tp),
      formula: each === 0 ? '0' : `${wide === 2 ? '2 x ' : ''}${words} s b h${by}`,
    }
  }
}

/** What makes a term differ, of a job for which it does. */
const reasons: Readonly<Record<BookTerm, (job: Job) => string | undefined>> = {
  norms: () => 'with row statistics, or recomputed',
  qkv: () => 'recomputed from the input of the norm',
  queriesKeys: ({ model }) => fewer(model) ?? 'recomputed in the backward pass',
  values: ({ model }) => fewer(model) ?? 'recomputed in the backward pass',
  scores: () => 'fused attention keeps one log-sum-exp per row instead of scores',
  projection: () => 'recomputed in the backward pass',
  first: () => 'recomputed from the input of the norm',
  activation: ({ model }) => wideness(model),
  second: ({ model }) => wideness(model),
  masks: () => 'dropout masks are regenerated by a counter-based RNG, none is kept',
}

const fewer = (model: Job['model']): string | undefined =>
  model.family !== 'mlp' && model.kvHeads < model.heads
    ? `keys and values have ${model.kvHeads} heads, the formula has ${model.heads}`
    : undefined

function wideness(model: Job['model']): string | undefined {
  if (model.family === 'llama')
    return `SwiGLU of width ${model.ffn} reads two tensors; the formula has GeLU of 4 h = ${4 * model.embed}`
  return model.ffn === 4 * model.embed
    ? 'recomputed in the backward pass'
    : `width ${model.ffn}, the formula 4 h = ${4 * model.embed}`
}
