/**
 * A training step for every rank, as one plain value.
 *
 * A *segment* is a straight-line list of instructions over its own buffers: the forward of a layer, its input
 * gradient, the update of one parameter. It is written once and called many times. Buffers lie in *frames*:
 * a segment names the roles its frames play, a call binds each role to a frame of the stream.
 * A *stream* is what the ranks of one pipeline coordinate do, in order: all of them the same, each at its own
 * place on the other axes. Frames are allocated, freed and placed in the arena by the stream.
 */
import {
  bytesPer,
  type Dim,
  type DType,
  type Elsewhere,
  type Init,
  isMaster,
  type Layout,
  type Mesh,
  type Scalars,
  type Space,
  type StateName,
  type States,
  stateEntries,
} from '../base/index.js'
import type { Instr, Ref } from './instr.js'
import type { ResultName, RoleName } from './role.js'

export { bytesPer, type DType, type Init }

export type Kind = 'parameters' | 'gradients' | 'optimizer' | 'activations' | 'workspace' | 'data'
/** The categories of memory: parameters, gradients, optimizer state, activations and so on. */
export const kinds: readonly Kind[] = ['parameters', 'gradients', 'optimizer', 'activations', 'workspace', 'data']

export interface Buffer {
  readonly dtype: DType
  /** The dims one rank holds; where the layout is flat, those of the block that is cut. */
  readonly dims: readonly Dim[]
  readonly layout: Layout
  /** Index into the segment's roles, and bytes from the start of that frame. */
  readonly role: number
  readonly offset: number
  /**
   * A view, of flat layouts only: the part lies at its own place among all parts, which lie side by side from `offset`
   * on. So reduce-scatter and all-gather may work in place.
   */
  readonly inside?: true
}

export interface Role {
  readonly name: RoleName
  readonly kind: Kind
  readonly bytes: number
  /** Where the frames that play it lie. Absent: on the device. */
  readonly space?: Elsewhere
}

/**
 * What a segment is for. F forward, I input gradient, W weight gradient, B both, C the codes of parameters that these read;
 * `gather` fetches parameters, `reduce` sums gradients over ranks, `add` adds what was reduced, `move` takes things to another
 * space; the others happen once a step.
 */
export const phases = [
  ...(['F', 'I', 'W', 'B', 'C'] as const),
  ...(['begin', 'load', 'count', 'gather', 'reduce', 'add', 'norm', 'move', 'update'] as const),
] as const
export type Phase = (typeof phases)[number]

export interface Segment {
  readonly name: string
  readonly phase: Phase
  readonly roles: readonly Role[]
  readonly buffers: Readonly<Record<Ref, Buffer>>
  readonly instrs: readonly Instr[]
}

/** A block of memory of one kind, alive from its alloc to its free (or to the end of the step, and into the next). */
export interface Frame {
  readonly name: string
  readonly kind: Kind
  readonly bytes: number
  /** Absent: on the device. */
  readonly space?: Elsewhere
  /** Byte offset in the rank's arena of that space. */
  readonly offset: number
}

/** Of a role or a frame. */
export const spaceOf = ({ space }: { readonly space?: Elsewhere }): Space => space ?? 'device'

export type Step =
  | { readonly kind: 'alloc'; readonly frame: number }
  | { readonly kind: 'free'; readonly frame: number }
  | {
      readonly kind: 'call'
      readonly segment: string
      /** Index into the program's blocks; -1 for segments that belong to no block. */
      readonly block: number
      /** -1 for what happens once a step. */
      readonly microbatch: number
      /** bind[i] is the frame (index into the stream's frames) that plays the segment's role i. */
      readonly bind: readonly number[]
      /** For the segments of one parameter (reduce, norm, update): its name. */
      readonly param?: string
      /**
       * The call only starts: its segment holds nothing but collectives, and the wait for this tag finishes them. Until
       * then the frames of results may not be touched, those of operands may be read but not written or freed.
       */
      readonly tag?: string
    }
  /**
   * Starts. Before its wait a frame received into may not be touched, and a frame sent may be read but not written or
   * freed. `peer` is a pipeline coordinate. A tag is on one send and one recv of a step, or on calls, one per stream.
   */
  | { readonly kind: 'send'; readonly frame: number; readonly peer: number; readonly tag: string }
  | { readonly kind: 'recv'; readonly frame: number; readonly peer: number; readonly tag: string }
  /** The send, recv or call of this tag, started earlier in this stream, is finished. */
  | { readonly kind: 'wait'; readonly tag: string }

export type Call = Extract<Step, { kind: 'call' }>

/** What a rank has of one space: bytes of the arena, and the greatest sum of live bytes per kind at any one time. */
export interface Room {
  readonly arena: number
  readonly peak: Readonly<Record<Kind, number>>
}

/** Of the device; of other spaces what is there. */
export interface Stream extends Room {
  readonly frames: readonly Frame[]
  /** Frames that live from step to step: parameters, gradients, optimizer state. Never allocated or freed by a step. */
  readonly resident: readonly number[]
  readonly steps: readonly Step[]
  readonly elsewhere?: Readonly<Partial<Record<Elsewhere, Room>>>
}

/** What counting begins with. */
export const noBytes = () => Object.fromEntries(kinds.map(kind => [kind, 0])) as Record<Kind, number> // every kind is in `kinds`

export const roomIn = ({ elsewhere, ...device }: Pick<Stream, 'arena' | 'peak' | 'elsewhere'>, space: Space): Room =>
  space === 'device' ? device : (elsewhere?.[space] ?? { arena: 0, peak: noBytes() })

export interface Param {
  readonly name: string
  /** What it is computed with. A bf16 parameter that has a master is the rounded copy of it. */
  readonly dtype: DType
  /** What its gradient is summed in. Absent: as its state. */
  readonly gradient?: DType
  /** Whole, as the model knows it. */
  readonly dims: readonly Dim[]
  readonly init: Init
  /** It stays as it is: it has no gradient and no states, and no step changes it. */
  readonly frozen?: true
  /** Where it lies on the streams that hold it: pipeline coordinate -> frame. Two holders: tied, or a stage held twice. */
  readonly frames: Readonly<Record<number, ParamFrames>>
  /** The layout of the parameter's own frame, and of what meets its gradient: the states that are as the parameter is. */
  readonly kept: Layout
  readonly state: Layout
  /** The states that are tensors of their own, with other dims, another layout or another dtype. */
  readonly apart?: States<StateTensor>
  /** Between steps the frame has room for all parts, and only the rank's own, at its place among them, is true. */
  readonly keptInside?: true
}

/** What is kept of a parameter under the name of a state. */
export interface StateTensor {
  readonly dtype: DType
  /** Whole. */
  readonly dims: readonly Dim[]
  /** Where it is partial, the sum over these axes is what lives from step to step: who holds which addend means nothing. */
  readonly layout: Layout
}

export const stateTensor = (param: Param, state: StateName): StateTensor =>
  param.apart?.[state] ?? { dtype: dtypeOfState(param), dims: param.dims, layout: param.state }

/** How a tensor lies in a frame; see Layout and Buffer.inside. */
export type Holding = Pick<Buffer, 'layout' | 'inside'>

/** How a parameter lies in its own frame between steps. */
export const keptAs = ({ kept, keptInside }: Param): Holding => ({ layout: kept, ...(keptInside && { inside: true }) })

/** Indices into the stream's frames. */
export interface ParamFrames {
  readonly param: number
  /** Where its gradient is summed up over microbatches, and what the update is given lies at the end. Absent where nothing is trained. */
  readonly grad?: number
  /** What is kept of it from step to step, by name. */
  readonly states: States<number>
}

/** The frame of the state that the optimizer updates in place of the parameter, if there is one. */
export const masterFrame = ({ states }: ParamFrames): number | undefined =>
  stateEntries(states).find(([state]) => isMaster(state))?.[1]

/** What its gradient is in, from the op that makes it to the optimizer. */
export const dtypeOfGradient = (param: Param): DType => param.gradient ?? dtypeOfState(param)

/** What optimizer state is in: f32 where a master keeps the digits, else what is updated, the parameter. */
export const dtypeOfState = ({ dtype, frames }: Param): DType =>
  Object.values(frames).some(held => masterFrame(held) !== undefined) ? 'f32' : dtype

export interface DataInput {
  readonly name: string
  readonly dtype: DType
  /** Whole, of one microbatch; its `batch` dim is a run of the global batch. Scalars (lr, step) have none. */
  readonly dims: readonly Dim[]
  readonly layout: Layout
  /** Of positions in documents: these begin at multiples of so many tokens of their sequence. Absent: anywhere. */
  readonly every?: number
}

export interface Block {
  readonly name: string
  /** Blocks of one kind share their segments. */
  readonly kind: string
  readonly stage: number
}

/**
 * Where a step leaves its sums: pipeline coordinate -> frame, on every stream that has the sum. The loss is a sum over
 * the tokens counted; an evaluation has no norm, and only a model whose blocks have losses of their own has terms.
 */
export type Results = Readonly<Record<Exclude<ResultName, 'terms'>, Places>> & { readonly terms?: Places }

type Places = Readonly<Record<number, number>>

/** `[pipeline coordinate, frame]` of each. */
export const resultPlaces = (frames: Places = {}): [pipeline: number, frame: number][] =>
  Object.entries(frames).map(([pipeline, frame]) => [Number(pipeline), frame])

/** A number of the whole program that lives from step to step: on every stream, in a frame of its own. */
export interface Scalar {
  /** What it is before the first step. */
  readonly start: number
  readonly frames: Places
}

/**
 * A compiled step for all ranks: segments (functions), one stream of calls per pipeline coordinate, and the memory
 * plan.
 */
export interface Program {
  readonly name: string
  readonly mesh: Mesh
  readonly microbatches: number
  readonly stages: number
  /** Forward only, for evaluation: no gradients, no optimizer. Absent: a training step. */
  readonly evaluates?: true
  /** In the model's order. */
  readonly blocks: readonly Block[]
  readonly params: readonly Param[]
  readonly inputs: readonly DataInput[]
  readonly results: Results
  /** Absent in an evaluation. */
  readonly scalars?: Scalars<Scalar>
  readonly segments: Readonly<Record<string, Segment>>
  /** One per pipeline coordinate. */
  readonly streams: readonly Stream[]
}
