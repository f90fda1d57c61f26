/**
 * The plans next to a plan: one decision taken differently, and what follows from it (when tp doubles, something else
 * must halve; fewer stages hold fewer chunks). They are what an engineer would try next.
 */
import { type AxisSizes, divisors, type MeshAxis, type Said, sizesOf } from '../base/index.js'
import { roomForRows, type Split } from '../estimate/index.js'
import { type ScheduleName, scheduleFacts, scheduleNames, usualRows } from '../plan/index.js'
import type { MoveValues, ReasonValues } from './neighbour-words.js'
import { pipelinesOf } from './pipelines.js'
import { endsOf, showEnds } from './reading-words.js'
import type { Request } from './request.js'
import { longSequence, meetingName, meetingsAlong, rooms, searchedAxes, zerosOf } from './space.js'

export interface Move {
  /** What is decided differently: 'tp x2, dp /2'. */
  readonly change: Said<MoveValues>
  readonly topic: Topic
  /** The plans it may mean: they differ in how layers are split, or in chunks. None: it cannot be written down. */
  readonly splits: readonly Split[]
  /** Why there are none. */
  readonly refused?: Said<ReasonValues>
}

/**
 * The change from one plan to another as it would be written in a job file: the decision, and every other field that must change with
 * it. Fields that are not named stay as they are.
 */
export function changeTo(change: Move['change'], from: Split, to: Split): Move['change'] {
  const named = change.code === 'move/zero' ? zeroChange(from, to) : change
  const changes = [named, ...consequences(from, to).filter(({ code }) => topicOf(code) !== topicOf(change.code))]
  return changes.length === 1 ? named : { code: 'move/several', values: { changes } }
}

/** To even layers or to others is the same kind of change. */
const topicOf = (code: Move['change']['code']): string => (code === 'move/layers-even' ? 'move/layers' : code)

/** What differs between two plans beside their axes, as single changes. */
function consequences(from: Split, to: Split): Move['change'][] {
  const isPipelined = to.pp > 1
  const schedule = ({ pp, schedule, chunks }: Split) => (pp > 1 ? `${schedule} ${chunks}` : '1f1b 1')
  const ends = ({ layers }: Split) => layers && showEnds(endsOf(layers))
  const when = (differs: boolean, change: () => Move['change']): Move['change'][] => (differs ? [change()] : [])
  return [
    ...when(from.microbatch !== to.microbatch, () => ({
      code: 'move/microbatch',
      values: { microbatch: to.microbatch },
    })),
    ...when(zeroOf(from) !== zeroOf(to), () => zeroChange(from, to)),
    ...when(to.tp > 1 && from.sequenceParallel !== to.sequenceParallel, () => ({
      code: 'move/sequence-parallel',
      values: { on: to.sequenceParallel },
    })),
    ...when(to.cp > 1 && meetingName(from) !== meetingName(to), () => ({
      code: 'move/attention',
      values: { meeting: meetingName(to) },
    })),
    ...when(from.rows !== to.rows, () => ({ code: 'move/rows', values: { rows: to.rows ?? usualRows } })),
    ...when(from.recompute !== to.recompute, () => ({ code: 'move/recompute', values: { recompute: to.recompute } })),
    ...when(isPipelined && schedule(from) !== schedule(to), () => toSchedule(to.schedule, to.chunks)),
    ...when(isPipelined && ends(from) !== ends(to), () => toLayers(to.layers)),
  ]
}

const zeroOf = ({ zero, reduce, gather }: Split): string => `${zero} ${reduce} ${gather}`

/** A default is named where the plan it is applied to has the other. */
const zeroChange = (from: Split, { zero, reduce, gather }: Split): Move['change'] => {
  const reduced = zero >= 2 ? (reduce ?? (from.reduce && ('microbatch' as const))) : undefined
  const gathered = zero === 3 ? (gather ?? (from.gather && ('use' as const))) : undefined
  return {
    code: 'move/zero',
    values: { zero, ...(reduced && { reduce: reduced }), ...(gathered && { gather: gathered }) },
  }
}

export type Topic = 'mesh' | 'batch' | 'zero' | 'recompute' | 'tensor' | 'attention' | 'rows' | 'schedule' | 'layers'

export const movesFrom = (request: Request, split: Split): Move[] => [
  ...meshMoves(request, split),
  ...batchMoves(split),
  ...zeroMoves(split),
  ...recomputeMoves(split),
  ...tensorMoves(split),
  ...attentionMoves(request, split),
  ...rowMoves(request, split),
  ...scheduleMoves(request, split),
  ...layerMoves(request, split),
]

const exchanges: readonly (readonly [more: MeshAxis, less: MeshAxis])[] = searchedAxes.flatMap((a, i) =>
  searchedAxes.slice(i + 1).flatMap(b => [[a, b] as const, [b, a] as const]),
)

/** cp where a sequence is cut already, or long. */
const meshMoves = (request: Request, split: Split): Move[] =>
  exchanges
    .filter(([more, less]) => split[less] > 1 && (more !== 'cp' || split.cp > 1 || request.shape.seq >= longSequence))
    .map(([more, less]) => {
      const by = split[less] % 2 === 0 ? 2 : divisors(split[less])[1]
      const axes = { ...sizesOf(split), [more]: split[more] * by, [less]: split[less] / by }
      return {
        change: { code: 'move/mesh', values: { more, less, by } },
        topic: 'mesh',
        ...onMesh(request, split, axes),
      }
    })

/**
 * The plan on other axes, and what must follow: microbatches that divide the batch, ZeRO and sequence parallelism where
 * they split something.
 */
function onMesh(request: Request, split: Split, axes: AxisSizes): Pick<Move, 'splits' | 'refused'> {
  const { tp, pp, dp } = axes
  const { globalBatch, shape } = request
  const sequences = globalBatch / dp
  if (!Number.isInteger(sequences))
    return { splits: [], refused: { code: 'reason/batch', values: { batch: globalBatch, dp } } }
  const { layers } = shape
  if (pp > layers + 2) return { splits: [], refused: { code: 'reason/stages', values: { layers, stages: pp } } }
  const microbatch = divisors(sequences).findLast(size => size <= split.microbatch) ?? 1
  const { layers: _, ulysses, ring, sharded, ...rest } = split
  const shard = (sharded ?? 0) / split.cp
  const base: Split = {
    ...rest,
    // Groups that ZeRO shards over stay as large, where there are still several.
    ...(shard > 0 && shard < dp && dp % shard === 0 && { sharded: shard * axes.cp }),
    // Among other ranks, keys meet as they did.
    ...(axes.cp === split.cp && { ...(ulysses && { ulysses }), ...(ring && { ring }) }),
    ...(axes.cp > 1 && !ulysses && ring && { ring }),
    ...axes,
    ...{ microbatch, microbatches: sequences / microbatch },
    zero: dp * axes.cp === 1 ? 0 : split.zero,
    sequenceParallel: tp > 1 && (split.tp === 1 || split.sequenceParallel),
  }
  return { splits: pipelined(request, base) }
}

/** In the same order, where there is one; with as many chunks, or as can be filled. */
function pipelined(request: Request, base: Split): Split[] {
  const all = pipelinesOf({ shape: request.shape, constraints: [] }, base.pp, base.chunks)
  const usable = base.pp === 1 ? all : all.filter(({ schedule }) => schedule === base.schedule)
  const chunks = (usable.findLast(pipeline => pipeline.chunks <= base.chunks) ?? usable[0])?.chunks
  return usable.filter(pipeline => pipeline.chunks === chunks).map(pipeline => ({ ...base, ...pipeline }))
}

function batchMoves(split: Split): Move[] {
  const { microbatch, microbatches } = split
  return [
    ...(microbatches % 2 === 0 ? [resized(split, microbatch * 2, microbatches / 2)] : []),
    ...(microbatch % 2 === 0 ? [resized(split, microbatch / 2, microbatches * 2)] : []),
  ]
}

const resized = (split: Split, microbatch: number, microbatches: number): Move => ({
  change: { code: 'move/microbatch', values: { microbatch } },
  topic: 'batch',
  splits: [{ ...split, microbatch, microbatches }],
})

/** Another stage means the best of its variants: what moves once a step, or more often. */
function zeroMoves({ reduce, gather, ...split }: Split): Move[] {
  if (split.dp * split.cp === 1) return []
  const variants = zerosOf(split)
  const others = ([0, 1, 2, 3] as const).filter(zero => zero !== split.zero)
  const own = variants.filter(one => one.zero === split.zero && (one.reduce !== reduce || one.gather !== gather))
  return [
    ...others.map((zero): Move => {
      const splits = variants.filter(one => one.zero === zero).map(one => ({ ...split, ...one }))
      return { change: { code: 'move/zero', values: { zero } }, topic: 'zero', splits }
    }),
    ...own.map((one): Move => {
      const to = { ...split, ...one }
      return {
        change: zeroChange({ ...split, ...(reduce && { reduce }), ...(gather && { gather }) }, to),
        topic: 'zero',
        splits: [to],
      }
    }),
  ]
}

const recomputeMoves = (split: Split): Move[] =>
  (['none', 'selective', 'full'] as const)
    .filter(recompute => recompute !== split.recompute)
    .map(recompute => ({
      change: { code: 'move/recompute', values: { recompute } },
      topic: 'recompute',
      splits: [{ ...split, recompute }],
    }))

const tensorMoves = (split: Split): Move[] =>
  split.tp === 1
    ? []
    : [
        {
          change: { code: 'move/sequence-parallel', values: { on: !split.sequenceParallel } },
          topic: 'tensor',
          splits: [{ ...split, sequenceParallel: !split.sequenceParallel }],
        },
      ]

/** Other people's software gathers keys. */
function attentionMoves(request: Request, split: Split): Move[] {
  if (split.cp === 1 || !request.software.own) return []
  const { ulysses: _, ring: __, ...rest } = split
  return meetingsAlong(request, split)
    .map(meeting => ({ ...rest, ...meeting }))
    .filter(other => meetingName(other) !== meetingName(split))
    .map(other => ({
      change: { code: 'move/attention', values: { meeting: meetingName(other) } },
      topic: 'attention',
      splits: [other],
    }))
}

/** The next less and the next more room for rows of experts, and that of the worst case. */
function rowMoves({ shape: { experts }, software }: Request, split: Split): Move[] {
  if (!experts || !software.own) return []
  const { imbalance: now = 1, rows: _, ...rest } = split
  const others = rooms.map(rows => ({ rows, room: roomForRows(experts, { ...split, rows }) }))
  const roomOf = ({ room: { imbalance = 1 } }: (typeof others)[number]) => imbalance
  const [less, more] = [others.findLast(one => roomOf(one) < now), others.find(one => roomOf(one) > now)]
  const worst = others.findLast(one => roomOf(one) > now)
  return [...new Set([less, more, worst])]
    .filter(one => one !== undefined)
    .map(({ rows, room }) => ({
      change: { code: 'move/rows', values: { rows } },
      topic: 'rows',
      splits: [withRoom(rest, room)],
    }))
}

const withRoom = ({ imbalance: _, ...split }: Split, room: Pick<Split, 'imbalance' | 'rows'>): Split => ({
  ...split,
  ...room,
})

function scheduleMoves(request: Request, split: Split): Move[] {
  if (split.pp === 1) return []
  const all = pipelinesOf({ shape: request.shape, constraints: [] }, split.pp, split.chunks)
  const { layers: _, ...rest } = split
  const move = (schedule: ScheduleName, chunks: number): Move => ({
    change: toSchedule(schedule, chunks),
    topic: 'schedule',
    splits: all.filter(p => p.schedule === schedule && p.chunks === chunks).map(p => ({ ...rest, ...p })),
  })
  const chunksOf = (schedule: ScheduleName) => [...new Set(all.filter(p => p.schedule === schedule).map(p => p.chunks))]
  return scheduleNames.flatMap(schedule => {
    const counts = chunksOf(schedule)
    if (schedule !== split.schedule) {
      const near = counts.findLast(n => n <= Math.max(2, split.chunks)) ?? counts[0]
      return near === undefined ? [] : [move(schedule, near)]
    }
    const [fewer, more] = [counts.findLast(n => n < split.chunks), counts.find(n => n > split.chunks)]
    return [fewer, more].filter(n => n !== undefined).map(n => move(schedule, n))
  })
}

const toSchedule = (schedule: ScheduleName, chunks: number): Move['change'] => ({
  code: 'move/schedule',
  values: scheduleFacts[schedule].chunksFixed ? { schedule } : { schedule, chunks },
})

function layerMoves(request: Request, split: Split): Move[] {
  const all = pipelinesOf({ shape: request.shape, constraints: [] }, split.pp, split.chunks)
  const { layers: own, ...rest } = split
  return all
    .filter(p => p.schedule === split.schedule && p.chunks === split.chunks && p.layers?.join() !== own?.join())
    .map(({ layers }) => ({
      change: toLayers(layers),
      topic: 'layers',
      splits: [{ ...rest, ...(layers && { layers }) }],
    }))
}

const toLayers = (layers: readonly number[] | undefined): Move['change'] =>
  layers ? { code: 'move/layers', values: endsOf(layers) } : { code: 'move/layers-even', values: {} }
