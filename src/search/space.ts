/**
 * Every plan there is for a request, in two levels. A *group* fixes how the devices and the batch are cut (tp, sequence
 * parallelism, cp, pp, dp, microbatch); bounds are computed for groups. Within a group vary the *pipeline* (schedule,
 * chunks, layer split) and what trades memory for time (ZeRO stage, recomputation). Every plan of the space passes
 * `check`. Experts are shared by ep of the ranks of dp x cp x tp, each whole (etp 1) unless a user asks for more.
 */
import { divisors, type MeshAxis } from '../base/index.js'
import { CutPrice, type Experts, footprint, planInput, roomForRows, type Split } from '../estimate/index.js'
import { isSound, Plan, recomputePolicies, unexchangeable, usualRows } from '../plan/index.js'
import { type Constraint, keeps } from './constraint.js'
import { areOfUse, type Extras, extrasOf } from './extras.js'
import { mostStages, type Pipeline } from './pipelines.js'
import { jobOf, plainSplit, type Request } from './request.js'

export const searchedAxes = ['tp', 'cp', 'pp', 'dp'] as const satisfies readonly MeshAxis[]

export interface Group {
  readonly tp: number
  readonly cp: number
  readonly ep: number
  /** Ranks that split each expert, if these are several. */
  readonly etp?: number
  readonly pp: number
  readonly dp: number
  readonly sequenceParallel: boolean
  readonly microbatch: number
  readonly microbatches: number
  /** Our own program works on as many rows of experts as it has room for. */
  readonly imbalance?: number
  readonly rows?: number | 'worst'
  /** How queries meet keys where a sequence is split, if these are not gathered. */
  readonly ulysses?: number
  readonly ring?: true
  /** What all plans of the search do beside the usual. */
  readonly extras?: Extras
}

export interface Saving {
  readonly zero: Split['zero']
  readonly recompute: (typeof recomputePolicies)[number]
  readonly reduce?: 'step'
  readonly gather?: 'step'
}

/** tp, sequence parallelism and cp as model and sequence allow them; the rest of a plan has no say in that. */
export function layerSplitsOf(request: Request): Pick<Group, 'tp' | 'sequenceParallel' | 'cp'>[] {
  const { devices } = request.cluster
  const isAllowed = allowing(request)
  return divisors(devices)
    .filter(tp => tp <= request.shape.heads)
    .flatMap(tp => (tp === 1 ? [false] : [true, false]).map(sequenceParallel => ({ tp, sequenceParallel })))
    .flatMap(split => contextsOf(request, devices / split.tp).map(cp => ({ ...split, cp })))
    .filter(split => keeps(split, request.constraints) && isAllowed(1, split))
}

/** Shorter sequences are not worth cutting, and no rank should have fewer tokens than the latter. */
export const longSequence = 16_384
const fewestTokens = 4096

/** Sizes of cp that divide the ranks, and cut the sequence in zigzag: as a user says, or where it is long. */
function contextsOf({ shape: { seq }, constraints }: Request, ranks: number): number[] {
  const asked = constraints.some(({ field }) => field === 'cp')
  const isUsual = (cp: number) => seq >= longSequence && seq / cp >= fewestTokens
  return divisors(ranks).filter(cp => cp === 1 || (seq % (2 * cp) === 0 && (asked || isUsual(cp))))
}

type Allowing = (globalBatch: number, split: Partial<Split>) => boolean

/** Whether a plan passes `check`. Of the jobs that are asked about all but the plan is read once. */
function allowing(request: Request): Allowing {
  const job = jobOf(request, plainSplit)
  const coded = request.recipe && { fp8: request.recipe } // some splits would cut a block
  return (globalBatch, split) => {
    const plan = Plan.parse(planInput({ ...plainSplit, ...coded, ...split }, request.precision))
    return isSound({ ...job, training: { ...job.training, globalBatch }, plan })
  }
}

/** Schedules of more tasks are not made. */
const mostTasks = 1e6
const mostCopies = 2 ** 16

/** Groups that differ in the size of their microbatches alone. */
export type DeviceCut = Omit<Group, 'microbatch' | 'microbatches'>

export function* deviceCutsOf(request: Request): Generator<DeviceCut> {
  const { cluster, globalBatch, shape, constraints } = request
  const meetingsOf = meetings(request)
  const isAllowed = allowing(request)
  const isAsked = asking(request)
  const { extras: asked = [] } = request
  const extras = asked.length > 0 && { extras: extrasOf(asked, request) }
  for (const { tp, sequenceParallel, cp } of layerSplitsOf(request))
    for (const pp of divisors(cluster.devices / (tp * cp))) {
      const dp = cluster.devices / (tp * cp * pp)
      if (pp > mostStages(shape.layers) || dp > mostCopies || !keeps({ pp, dp }, constraints)) continue
      if (globalBatch % dp !== 0 || !areOfUse(asked, { dp, cp })) continue
      const dense = { tp, cp, dp, sequenceParallel }
      for (const grid of expertsOver(request, dense, isAllowed))
        for (const meeting of beside({ ...dense, ...grid }, meetingsOf(dense), isAllowed)) {
          const cut = { pp, ...dense, ...grid, ...meeting, ...extras }
          if (keeps(cut, constraints) && (cp === 1 || isAsked(meeting))) yield cut
        }
    }
}

export type Batch = Pick<Group, 'microbatch' | 'microbatches'>

/** How the sequences of one of so many data ranks are cut: the smallest microbatches first. */
export function batchesOf({ globalBatch, shape, constraints }: Request, dp: number): Batch[] {
  const sequences = globalBatch / dp
  return divisors(sequences)
    .map(microbatch => ({ microbatch, microbatches: sequences / microbatch }))
    .filter(batch => mostStages(shape.layers) * batch.microbatches <= mostTasks && keeps(batch, constraints))
}

export function* groupsOf(request: Request): Generator<Group> {
  for (const cut of deviceCutsOf(request)) for (const batch of batchesOf(request, cut.dp)) yield { ...cut, ...batch }
}

/** Beside a ring, more ranks hardly exchange heads. */
const mostExchanging = 8

export type Meeting = Pick<Group, 'ulysses' | 'ring'>
type LayerCut = Pick<Group, 'tp' | 'cp' | 'sequenceParallel'>

/**
 * How queries meet keys where a sequence is split: of the ways that the heads allow, the one with which a layer takes the least
 * time for one sequence; and each that takes more but needs less memory, by as much as may decide what fits. Other people's
 * software gathers keys.
 */
function meetings(request: Request): (cut: LayerCut) => readonly Meeting[] {
  const isAsked = asking(request)
  const worthwhile = (cut: LayerCut): Meeting[] => {
    const priced = meetingsAlong(request, cut)
      .filter(isAsked)
      .map(way => ({ way, ...priceOfMeeting(request, cut, way) }))
    return lighterAndLighter(priced.sort((a, b) => a.seconds - b.seconds)).map(({ way }) => way)
  }
  const known = new Map<string, readonly Meeting[]>()
  return cut => {
    const { tp, cp, sequenceParallel } = cut
    if (cp === 1 || !request.software.own) return [{}]
    const key = `${tp} ${cp} ${sequenceParallel}`
    const found = known.get(key) ?? worthwhile(cut)
    known.set(key, found)
    return found
  }
}

/** Whether constraints leave a way, where a sequence is split. */
function asking({ constraints }: Request): (way: Meeting) => boolean {
  return ({ ulysses, ring }) => {
    const attention = ulysses ? (ring ? 'ulysses+ring' : 'ulysses') : ring ? 'ring' : 'gather'
    return keeps({ attention }, constraints)
  }
}

/** All ways that the heads allow. */
export function meetingsAlong({ model }: Request, { tp, cp }: Pick<Group, 'tp' | 'cp'>): Meeting[] {
  const exchanging = divisors(cp).filter(n => n > 1 && unexchangeable(model, tp, n) === undefined)
  const beside = exchanging.findLast(n => n < cp && n <= mostExchanging)
  return [
    ...[{}, { ring: true as const }],
    ...(beside ? [{ ulysses: beside, ring: true as const }] : []),
    ...(exchanging.at(-1) === cp ? [{ ulysses: cp }] : []),
  ]
}

/** In words: 'ring', 'ulysses 2 x ring 4'. */
export function meetingName({ cp, ulysses = 1, ring }: Pick<Split, 'cp' | 'ulysses' | 'ring'>): string {
  if (ulysses === 1) return ring ? 'ring' : 'gather'
  return ulysses === cp ? 'ulysses' : `ulysses ${ulysses} x ring ${cp / ulysses}`
}

/** Seconds of a layer, and the share of a device that its memory takes with all layers of a rank beside it. */
function priceOfMeeting(request: Request, { tp, cp, sequenceParallel }: LayerCut, way: Meeting) {
  const { shape, cluster, precision, software, book } = request
  const setup = {
    shape,
    split: { ...plainSplit, tp, cp, sequenceParallel, ...way },
    cluster,
    precision,
    software,
    book,
  }
  const { activations, workspace } = footprint(setup)
  return { seconds: new CutPrice(setup).busy(), memory: (activations + workspace) / cluster.device.memory }
}

/** Differences of less are not worth looking at twice as many plans. */
const tellingMemory = 0.02

/** The first, and each that is lighter than all before it by a share of a device that counts. */
function lighterAndLighter<T extends { readonly memory: number }>(ways: readonly T[]): T[] {
  const kept: T[] = []
  for (const way of ways) if (way.memory < (kept.at(-1)?.memory ?? Infinity) - tellingMemory) kept.push(way)
  return kept
}

/** Of the ways in which queries meet keys those that leave the experts their ranks; to gather keys always does. */
function beside(cut: LayerCut & Partial<Split>, all: readonly Meeting[], isAllowed: Allowing): readonly Meeting[] {
  const { dp = 1, ep = 1, etp = 1 } = cut
  const fits = (meeting: Meeting) => !meeting.ulysses || isAllowed(dp, { ...cut, ...meeting })
  const left = ep * etp === 1 ? all : all.filter(fits)
  return left.length > 0 ? left : [{}]
}

type ExpertRanks = Pick<Group, 'ep' | 'etp' | 'imbalance' | 'rows'>

/**
 * Sizes of ep that divide the experts and the ranks of a stage. To split experts moves more and multiplies less at a time than to
 * share them, so that is searched only where a user asks for it; and so is other room for rows than the usual, since less of it
 * may stop a run.
 */
function expertsOver(
  request: Request,
  dense: Pick<Group, 'tp' | 'cp' | 'dp' | 'sequenceParallel'>,
  isAllowed: Allowing,
): ExpertRanks[] {
  const { shape, constraints } = request
  const { experts } = shape
  if (!experts) return [{ ep: 1 }]
  const { tp, cp, dp } = dense
  const asked = constraints.some(({ field }) => field === 'etp')
  const splits = asked ? divisors(tp).filter(etp => experts.ffn % etp === 0) : [1]
  return divisors(tp * cp * dp)
    .filter(ep => experts.count % ep === 0)
    .flatMap(ep => splits.map(etp => ({ ep, ...(etp > 1 && { etp }) })))
    .filter(grid =>
      keeps(
        grid,
        constraints.filter(({ field }) => field !== 'expertCapacity'),
      ),
    )
    .filter(grid => grid.ep * (grid.etp ?? 1) === 1 || isAllowed(dp, { ...dense, ...grid }))
    .flatMap(grid => roomsFor(request, experts, grid))
}

/** Room for rows that is tried where a user asks for other than the usual. */
export const rooms = [1, 1.25, 1.5, usualRows, 3, 4, 6, 8, 'worst'] as const

/** With the room for rows that our own program has; what cannot be used up is the same as less. */
function roomsFor(
  { constraints, software }: Request,
  experts: Experts,
  grid: Pick<Group, 'ep' | 'etp'>,
): ExpertRanks[] {
  if (!software.own) return [grid]
  const asked = constraints.flatMap(one => (one.field === 'expertCapacity' ? [one.value] : []))
  const named = asked.length > 0 ? [...rooms, ...asked.filter(Number.isFinite)] : [usualRows]
  const found = new Map<number, ExpertRanks>()
  for (const rows of named) {
    const group = { ...grid, ...roomForRows(experts, { ...grid, rows }) }
    const room = group.imbalance ?? 1
    if (keeps(group, constraints) && (!found.has(room) || rows === usualRows)) found.set(room, group)
  }
  return [...found.values()]
}

export type Copies = Pick<Group, 'dp' | 'cp' | 'microbatches' | 'extras'>

export function savingsOf(copies: Copies, constraints: readonly Constraint[] = []): Saving[] {
  // `cheap` where it is asked for: a fourth kind of saving for every plan is a third more of them.
  const asked = constraints.some(
    one => one.field === 'recompute' && one.relation === '=' && one.values.includes('cheap'),
  )
  const kinds = recomputePolicies.filter(kind => kind !== 'cheap' || asked)
  const lifts = copies.extras?.lifted !== undefined
  const zeros = zerosOf(copies).filter(zero => keeps(zero, constraints) && (zero.zero === 3 || !lifts))
  return zeros
    .filter(zero => !zeros.some(other => comesTo(zero, other)))
    .flatMap(zero => kinds.map(recompute => ({ ...zero, recompute })))
    .filter(saving => keeps(saving, constraints))
}

/**
 * What is gathered or reduced once a step lies whole all along: ZeRO-3 comes to ZeRO-2 then, and ZeRO-2 to ZeRO-1, in as
 * much time and no less memory.
 */
function comesTo({ zero, reduce, gather }: Zero, other: Zero): boolean {
  if (other.gather || other.reduce || other.zero >= zero) return false
  return zero === 2 ? reduce !== undefined && other.zero === 1 : gather !== undefined && other.zero === (reduce ? 1 : 2)
}

type Zero = Omit<Saving, 'recompute'>

/** What is split over the copies, and whether it moves once a step. Of one microbatch gradients are reduced once anyway. */
export function zerosOf({ dp, cp, microbatches, extras }: Copies): Zero[] {
  // Parts that live elsewhere are gathered from there, if there is one part.
  if (dp * cp === 1) return [{ zero: extras?.lifted ? 3 : 0 }]
  const reduces: readonly Pick<Zero, 'reduce'>[] = microbatches > 1 ? [{}, { reduce: 'step' }] : [{}]
  const gathers: readonly Pick<Zero, 'gather'>[] = [{}, { gather: 'step' }]
  return [
    ...[{ zero: 0 } as const, { zero: 1 } as const],
    ...reduces.map(reduce => ({ zero: 2, ...reduce }) as const),
    ...reduces.flatMap(reduce => gathers.map(gather => ({ zero: 3, ...reduce, ...gather }) as const)),
  ]
}

/** Its usual fields in one order, the others after them: a search makes so many that it counts. */
export function splitFrom(group: Group, { schedule, chunks, layers }: Pipeline, saving: Saving): Split {
  const split: { -readonly [Field in keyof Split]: Split[Field] } = {
    tp: group.tp,
    pp: group.pp,
    dp: group.dp,
    cp: group.cp,
    ep: group.ep,
    sequenceParallel: group.sequenceParallel,
    zero: saving.zero,
    schedule,
    chunks,
    microbatches: group.microbatches,
    microbatch: group.microbatch,
    recompute: saving.recompute,
  }
  if (group.etp) split.etp = group.etp
  if (group.imbalance) split.imbalance = group.imbalance
  if (group.rows !== undefined) split.rows = group.rows
  if (group.ulysses) split.ulysses = group.ulysses
  if (group.ring) split.ring = group.ring
  if (saving.reduce) split.reduce = saving.reduce
  if (saving.gather) split.gather = saving.gather
  if (layers) split.layers = layers
  return group.extras ? { ...split, ...group.extras } : split
}
