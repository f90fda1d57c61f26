/**
 * What spans are, in the few words in which they are drawn and counted: forward or backward, of which stage and microbatch; along
 * which axis bytes go, and in which collective. Of columns these are columns too, so that who draws them needs no program.
 */
import { rankOrder } from '../base/index.js'
import {
  axisOfCollective,
  type Instr,
  isCollective,
  type Phase,
  type Program,
  type Segment,
  type Step,
} from '../ir/index.js'
import { lanes, type SpanColumns } from './columns.js'
import type { Span } from './span.js'

/**
 * The kinds of spans: phases of compute, once-per-step work, and the axes of communication. `mesh` is all axes at
 * once.
 */
export const spanKinds = ['F', 'B', 'I', 'W', 'optimizer', 'other', ...rankOrder, 'mesh'] as const
/** What a span is: a phase (F, B, I, W), an axis, or work done once per step. */
export type SpanKind = (typeof spanKinds)[number]

export interface SpanLabel {
  readonly kind: SpanKind
  /** The instruction, or the step itself: 'contract', 'all-reduce', 'send'. */
  readonly op: string
  /** -1: what belongs to no stage, or happens once a step. */
  readonly stage: number
  readonly microbatch: number
}

/** Labels of spans as typed arrays, as long as the columns they describe. */
export interface SpanLabels {
  /** Index into `spanKinds`. */
  readonly kind: Uint8Array<ArrayBuffer>
  /** Index into `ops`. */
  readonly op: Uint8Array<ArrayBuffer>
  readonly ops: readonly string[]
  readonly stage: Int32Array<ArrayBuffer>
  readonly microbatch: Int32Array<ArrayBuffer>
}

const kindOfPhase: Readonly<Record<Phase, SpanKind>> = {
  ...{ F: 'F', B: 'B', I: 'I', W: 'W', norm: 'optimizer', update: 'optimizer' },
  ...{ C: 'other', begin: 'other', load: 'other', count: 'other', move: 'other' },
  ...{ gather: 'other', reduce: 'other', add: 'other' },
}

/** A collective by the axis it goes over, its wait likewise; what goes to another space goes along none. */
function kindCarried(instr: Instr | undefined, { instrs }: Segment): SpanKind {
  const on = instr?.kind === 'wait' ? instr.on : undefined
  const carried = on === undefined ? instr : instrs.find(other => isCollective(other) && other.outs[0] === on)
  if (carried?.kind === 'move') return 'other'
  return (carried && isCollective(carried) && axisOfCollective(carried)) || 'mesh'
}

/** Labels of the spans of one program; what is found out of a segment is kept. */
export class Labeller {
  readonly #program: Program
  readonly #carried = new Map<string, readonly SpanKind[]>()

  constructor(program: Program) {
    this.#program = program
  }

  /** Of a span of the ranks of one pipeline coordinate. */
  of(pp: number, { step: at, instr, lane }: Pick<Span, 'step' | 'instr' | 'lane'>): SpanLabel {
    const step = this.#program.streams[pp].steps[at]
    if (step.kind !== 'call') return { kind: kindOfStep(step, lane), op: step.kind, stage: -1, microbatch: -1 }
    const segment = this.#program.segments[step.segment]
    return {
      kind: lane === 'network' ? this.#carriedBy(segment, instr) : kindOfPhase[segment.phase],
      op: segment.instrs[instr]?.kind ?? step.kind,
      stage: this.#program.blocks[step.block]?.stage ?? -1,
      microbatch: step.microbatch,
    }
  }

  #carriedBy(segment: Segment, instr: number): SpanKind {
    const known = this.#carried.get(segment.name) ?? segment.instrs.map(each => kindCarried(each, segment))
    this.#carried.set(segment.name, known)
    return known[instr] ?? 'pp'
  }
}

const kindOfStep = ({ kind }: Step, lane: Span['lane']): SpanKind =>
  lane === 'network' || kind === 'send' || kind === 'recv' ? 'pp' : 'other'

/** The kind, stage, microbatch and op of each span of a rank. */
export function labelsOf(program: Program, pp: number, columns: SpanColumns): SpanLabels {
  const count = columns.start.length
  const labeller = new Labeller(program)
  const ops = new Map<string, number>()
  const labels = {
    ...{ kind: new Uint8Array(count), op: new Uint8Array(count) },
    ...{ stage: new Int32Array(count), microbatch: new Int32Array(count) },
  }
  for (let i = 0; i < count; i++) {
    const at = { step: columns.step[i], instr: columns.instr[i], lane: lanes[columns.lane[i]] }
    const { kind, op, stage, microbatch } = labeller.of(pp, at)
    if (!ops.has(op)) ops.set(op, ops.size)
    labels.kind[i] = spanKinds.indexOf(kind)
    labels.op[i] = ops.get(op)!
    labels.stage[i] = stage
    labels.microbatch[i] = microbatch
  }
  return { ...labels, ops: [...ops.keys()] }
}
