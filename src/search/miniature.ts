/**
 * The smallest program that has every segment of a plan: one layer of each kind a stage, two microbatches, and one pipeline
 * rank for each part there is to play (it holds the first stage, the last, both or neither). Layers of a kind are alike,
 * so whatever a rank of the plan does before its first task, for a task and after its last, some rank of the miniature
 * does too.
 */
import { compile, inputOf, type Sharding, shardStep } from '../compile/index.js'
import type { Split } from '../estimate/index.js'
import type { Call, Frame, Program, Stream } from '../ir/index.js'
import { layersOfEachKind, type ModelConfig, routedLayers } from '../model/index.js'
import { Places, type Schedule, type Task, type TaskKind, tasksOf } from '../schedule/index.js'
import { jobOf, type Request } from './request.js'

/** How stages lie on ranks. */
type Placement = 'alone' | 'row' | 'V' | 'both ways'

/**
 * The stages of each rank; both ways: that of the first microbatch, and that of the second. An odd number of ranks has
 * one in the middle that shares its stage with nobody.
 */
const stagesOn: Readonly<Record<Placement, readonly (readonly number[])[]>> = {
  alone: [[0]],
  row: [0, 1, 2].map(rank => [rank]),
  V: [0, 1].map(rank => [rank, 3 - rank]),
  'both ways': [0, 1, 2, 3, 4].map(rank => [rank, 4 - rank]),
}

export interface Miniature {
  readonly program: Program
  /** What its blocks and parameters do. */
  readonly sharding: Sharding
  /** One template per rank. */
  readonly templates: readonly Template[]
  /** The block that plays the part of each layer of the plan. */
  readonly blockOf: (layer: number) => number
  /** The block for each of whose layers on a rank it is made; undefined: for none. */
  readonly layerOf: (call: Call) => number | undefined
  /** Whether only ranks make it that hold layers with losses of their own. */
  readonly isOfTerms: (call: Call) => boolean
  /** What is handed to the next stage, and what to the one before. */
  readonly messages: readonly Frame[]
}

/** What a rank calls before its first task and after its last, but for flights; of what it calls several times, once. */
export interface Template {
  readonly before: readonly Call[]
  readonly after: readonly Call[]
}

/** What a miniature depends on beside its layers. */
export interface Script {
  readonly placement: Placement
  readonly kinds: readonly TaskKind[]
}

export const scriptOf = (schedule: Schedule): Script => ({
  placement: placementOf(schedule),
  kinds: kindsIn(schedule),
})

/** Plans of one key have one miniature: they are alike in all but their pipeline. */
export function keyOf(split: Split, { placement, kinds }: Script): string {
  return JSON.stringify([placement, kinds, { ...split, ...anyPipeline }])
}

const anyPipeline = {
  pp: 1,
  schedule: '1f1b',
  chunks: 1,
  layers: [],
} as const satisfies Partial<Split>

export function miniatureOf(request: Request, split: Split, { placement, kinds }: Script): Miniature {
  const ranks = stagesOn[placement]
  const chunks = placement === 'V' ? 2 : 1
  const stages = ranks.length * chunks
  const { layers: _, ...evenly } = split
  const globalBatch = 2 * split.dp * split.microbatch
  const model = layersOfEachKind(request.model, stages)
  const blockOf = blocksFor(request.model)
  const job = jobOf(
    { ...request, model, globalBatch },
    { ...evenly, pp: ranks.length, chunks, microbatches: 2, schedule: '1f1b' },
  )
  const rows = ranks.map((_, rank) => rowOf(placement, rank, kinds))
  const input = inputOf(job, { stages, microbatches: 2, rows })
  const sharding = shardStep(input)
  const program = compile(input, sharding)
  const layers = program.blocks.slice(0, -1).map(({ kind }) => ` ${kind}.`)
  const isOfTerms = ({ segment }: Call) =>
    program.segments[segment].roles.some(({ name }) => name.is === 'result' && name.of === 'terms')
  return {
    ...{ program, sharding, blockOf, isOfTerms },
    templates: program.streams.map(stream => templateOf(program, stream)),
    layerOf: ({ param, segment }) => {
      const block = param === undefined ? -1 : layers.findIndex((kind, at) => at > 0 && segment.includes(kind))
      return block < 0 ? undefined : block
    },
    messages: ['F0.0', 'B1.0'].map(tag => messageOf(program, tag)),
  }
}

/** The block of a miniature that a layer of the model is played by: of two kinds the dense one comes first. */
function blocksFor(model: ModelConfig): Miniature['blockOf'] {
  const routed = new Set(model.family === 'llama' ? routedLayers(model) : [])
  const isMixed = routed.size < model.layers
  return layer => (isMixed && routed.has(layer) ? 2 : 1)
}

/** The rank of the miniature that plays the part of a rank of the plan. */
export function partOf({ placement }: Script, rank: number, ranks: number): number {
  const last = ranks - 1
  if (rank === 0) return 0
  switch (placement) {
    case 'both ways':
      return rank === last ? 4 : 2 + Math.sign(2 * rank - last)
    case 'V':
      return 1
    default:
      return rank === last ? 2 : 1
  }
}

function placementOf(schedule: Schedule): Placement {
  if (schedule.rows.length === 1) return 'alone'
  const places = new Places(schedule)
  const [first, last] = [places.holders(0), places.holders(schedule.stages - 1)]
  if (first.length > 1) return 'both ways'
  return first[0] === last[0] ? 'V' : 'row'
}

function kindsIn({ rows }: Schedule): TaskKind[] {
  const found = new Set<TaskKind>()
  for (const row of rows) for (const { kind } of tasksOf(row)) found.add(kind)
  return (['F', 'B', 'I', 'W'] as const).filter(kind => found.has(kind))
}

/** All forwards, then all backwards; where some are whole and some in two, the first microbatch's is whole. */
function rowOf(placement: Placement, rank: number, kinds: readonly TaskKind[]): Task[] {
  const stagesOf = (microbatch: number): readonly number[] =>
    placement === 'both ways' ? [stagesOn[placement][rank][microbatch]] : stagesOn[placement][rank]
  const back = (microbatch: number): TaskKind[] =>
    kinds.includes('B') && (microbatch === 0 || !kinds.includes('I')) ? ['B'] : ['I', 'W']
  return [
    ...[0, 1].flatMap(microbatch => stagesOf(microbatch).map(stage => ({ kind: 'F' as const, stage, microbatch }))),
    ...[0, 1].flatMap(microbatch =>
      stagesOf(microbatch)
        .toReversed()
        .flatMap(stage => back(microbatch).map(kind => ({ kind, stage, microbatch }))),
    ),
  ]
}

function templateOf({ segments }: Program, { steps }: Stream): Template {
  const isTask = steps.map(step => step.kind === 'call' && step.block >= 0)
  const [first, last] = [isTask.indexOf(true), isTask.lastIndexOf(true)]
  const flies = ({ tag, segment }: Call) => tag !== undefined || segments[segment].phase === 'add'
  const callsIn = (some: Stream['steps']): Call[] => {
    const calls = new Map<string, Call>()
    for (const step of some)
      if (step.kind === 'call' && !flies(step) && !calls.has(step.segment)) calls.set(step.segment, step)
    return [...calls.values()]
  }
  return { before: callsIn(steps.slice(0, first)), after: callsIn(steps.slice(last + 1)) }
}

/** All that crosses, as one. */
function messageOf({ streams }: Program, tag: string): Frame {
  const bytes = streams.flatMap(({ steps, frames }) =>
    steps.map(step => (step.kind === 'recv' && step.tag.startsWith(`${tag} `) ? frames[step.frame].bytes : 0)),
  )
  return { name: tag, kind: 'activations', bytes: bytes.reduce((a, b) => a + b, 0), offset: 0 }
}
