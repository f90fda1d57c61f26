/** What the passes of the compiler hand to each other. */
import type { Coding, Layout } from '../base/index.js'
import type { Segment } from '../ir/index.js'
import type { Block, Model, Node, ParamSpec, Sharding as ShardingRule } from '../model/index.js'
import type { Plan, Training } from '../plan/index.js'
import { onlyForward, type Schedule, tasksOf } from '../schedule/index.js'
import type { BlockDrafts, PhaseName } from './blocks.js'
import type { Boundaries } from './boundaries.js'
import type { FlightDrafts } from './data.js'
import type { DerivedGraph } from './differentiate.js'
import type { ShardedMesh } from './layouts.js'
import type { OnceDrafts } from './once.js'
import type { Watch } from './passes.js'
import type { ParamDtypes } from './precision.js'
import type { Phases } from './recompute.js'
import type { ParamDrafts } from './tail.js'
import type { PlayedRanks } from './topk.js'

/** What of the training a step depends on. */
export type TrainedBy = Pick<
  Training,
  'optimizer' | 'paramGroups' | 'clip' | 'skipAbove' | 'spikes' | 'lossScale' | 'ema'
>

export interface CompileInput {
  /** The model of one microbatch: its batch is globalBatch / microbatches. */
  readonly model: Model
  readonly plan: Plan
  readonly training: TrainedBy
  /** rows = pp, stages = pp * chunks. */
  readonly schedule: Schedule
  /**
   * `heaviest`: only the arena of the heaviest stream need be as small as can be, which takes a fraction of the time. `none`: frames lie
   * one behind the other, in a program that is read and never run.
   */
  readonly placing?: 'each' | 'heaviest' | 'none'
  /** Called after each pass with what it made, in the order of `passes`. */
  readonly watch?: Watch | undefined
}

/** A kind of block is compiled once, whatever the number of blocks of it. */
export type ByKind<T> = Readonly<Record<string, T>>

export function eachKind<T>({ blocks }: Model, make: (block: Block) => T): ByKind<T> {
  const made: Record<string, T> = {}
  for (const block of blocks) made[block.kind] ??= make(block)
  return made
}

/** Addends of a gradient on one rank that plays several: microbatches go to those ranks in turn, and each rank adds to one of them. */
export interface Dealt {
  readonly addends: number
  /** The addend of each rank: one of its own, or that of all who share experts with it. */
  readonly turns: readonly number[]
}

/** How a parameter is laid out: to compute with, and in parts over the data axes. */
export interface ParamLayouts {
  readonly compute: Layout
  readonly storage: Layout
  /** Every call leaves its gradient in a frame of its own, to be reduced and added up by others; else it is added up as produced. */
  readonly fresh: boolean
  /** Where one rank plays several: how their plan cuts it. */
  readonly played?: Pick<Coding, 'parts' | 'blocks'>
  /** And the addends it keeps of the gradient, where these send codes of theirs, or a part. */
  readonly dealt?: Dealt
  /** Those ranks, where they remember what they did not send. */
  readonly ranks?: PlayedRanks
  /** Of what its calls make the greatest is kept, not the sum. */
  readonly tracks?: true
}

/** What is known before anything is sharded. */
export interface Facts extends CompileInput {
  readonly s: ShardedMesh
  /** Forward and backward of each kind of block, and the nodes that each phase of it runs. */
  readonly graphs: ByKind<DerivedGraph>
  readonly nodes: ByKind<Phases>
  readonly rules: WeakMap<Node, ShardingRule>
  /** The stage of each block, and the stages each pipeline coordinate has tasks of. */
  readonly stageOf: readonly number[]
  readonly held: readonly ReadonlySet<number>[]
  /** Layouts by the model's name for a parameter. */
  readonly layouts: ReadonlyMap<string, ParamLayouts>
}

export interface CompiledParam extends ParamDtypes {
  readonly spec: ParamSpec
  /** Its class. */
  readonly of: string
  readonly layouts: ParamLayouts
  /** Pipeline coordinates that hold it: several for tied weights and for stages held twice. */
  readonly holders: readonly number[]
  readonly segments: ParamDrafts
}

/** Every segment of the step, its buffers not yet placed. */
export interface Drafts {
  readonly blocks: ByKind<BlockDrafts>
  readonly params: readonly CompiledParam[]
  readonly once: OnceDrafts
}

/** A step in layouts. */
export interface Sharding extends Facts, Drafts {}

/** All that streams are written from. */
export interface StreamSources extends Sharding {
  /** What takes carries to the host and back, where they wait there. */
  readonly boundaries: Boundaries
  /** The flights of each stream. */
  readonly flights: readonly FlightDrafts[]
  readonly segments: Readonly<Record<string, Segment>>
}

/** Nothing goes back: no gradients, no norm, no update. */
export const evaluates = ({ schedule }: Pick<CompileInput, 'schedule'>): boolean => onlyForward(schedule)

/** The phases that the schedule has tasks of. */
export function phasesIn({ schedule }: Pick<CompileInput, 'schedule'>): PhaseName[] {
  const used = new Set(schedule.rows.flatMap(row => tasksOf(row).map(task => task.kind)))
  return (['F', 'I', 'W', 'B'] as const).filter(phase => used.has(phase))
}

export const stagesHeld = (schedule: Schedule): ReadonlySet<number>[] =>
  schedule.rows.map(row => new Set(tasksOf(row).map(task => task.stage)))

/** Pipeline coordinates with tasks of one of these stages. */
export const holdersOf = ({ held }: Facts, stages: readonly number[]): number[] =>
  held.flatMap((on, rank) => (stages.some(stage => on.has(stage)) ? [rank] : []))

/** Pipeline coordinates with tasks of the last block's stage. */
export const lossHolders = (facts: Facts): number[] => holdersOf(facts, facts.stageOf.slice(-1))

/** Pipeline coordinates with tasks of blocks that have losses of their own, and of the last block: whoever reports the loss adds them to it. */
export function termHolders(facts: Facts): number[] {
  const { model, stageOf } = facts
  const stages = stageOf.filter((_, i) => model.blocks[i].graph.terms !== undefined)
  return stages.length === 0 ? [] : holdersOf(facts, [...stages, ...stageOf.slice(-1)])
}

/** The blocks of each stage, in order. */
export function blocksOfStages({ schedule, stageOf }: Pick<Facts, 'schedule' | 'stageOf'>): number[][] {
  const blocks = Array.from({ length: schedule.stages }, () => [] as number[])
  for (const [block, stage] of stageOf.entries()) blocks[stage].push(block)
  return blocks
}
