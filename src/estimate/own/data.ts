/**
 * What the data axes move while our own program computes: its flights, planned as the compiler plans them. A stage is
 * played for a few microbatches. That tells how long its tasks take among others like them, what the first forward of a
 * step waits for, and what is left of the flights behind the last backward.
 */
import { dataRanks, meshAxes } from '../../base/index.js'
import { scheduleFacts, usualFlights } from '../../plan/index.js'
import { type DataPolicy, type Flight, type FlightEvent, planFlights } from '../../schedule/index.js'
import { ByFields } from '../entry.js'
import type { RankTime } from '../schedules/pipeline.js'
import { fetchesEach, type RankLayers, reducesEach, splitsAll } from '../schedules/stages.js'
import type { Setup, Split } from '../setup.js'
import { type BlockTraffic, blocksOf, type FlyingBlock, type FlyingBlocks } from './flying.js'
import { Lane } from './lane.js'
import { isNotCut } from './layer.js'

export interface StageTime extends RankTime {
  /** Of one microbatch, waiting for flights. */
  readonly waited: number
  /** What the first forward of a step takes longer, and what comes on top behind the last backward. */
  readonly start: number
  readonly end: number
}

/** Microbatches of which one has others before and after it. */
const few = 3

/** Layers after which each further one adds the same. */
const enough = 6

/** What the time of a stage depends on, beside how its layers are cut and what they take. */
const stageFields = [
  ...(['zero', 'microbatches', 'recompute', 'reduce', 'gather', 'bucket', 'prefetch'] as const),
  ...(['inTwo', 'forwardsFirst', 'layers', 'first', 'last'] as const),
  ...meshAxes.filter(axis => isNotCut(axis) && axis !== 'pp'),
] as const

/** Stages of other plans that take the same: plans differ in their pipeline far more often than in what this depends on. */
export const ownStageTimes = () => new ByFields<(typeof stageFields)[number], StageTime>(stageFields)
export type OwnStageTimes = ReturnType<typeof ownStageTimes>

/** One microbatch of a stage, with the flights of a plan. */
export function stageTime(
  setup: Setup,
  traffic: BlockTraffic,
  blocks: FlyingBlocks,
  stage: RankLayers,
  known: OwnStageTimes,
): StageTime {
  const { split } = setup
  const { forwardsFirst } = scheduleFacts[split.schedule]
  const short = (layers: number) => {
    const held = { ...stage, layers }
    const key = { ...split, ...held, inTwo: splitsAll(split), forwardsFirst }
    return known.of(key, () => shortStageTime(setup, traffic, blocks, held))
  }
  const { layers } = stage
  if (layers <= enough) return short(layers)
  const [fewer, more] = [short(enough - 1), short(enough)]
  const of = (part: keyof StageTime) => more[part] + (layers - enough) * (more[part] - fewer[part])
  return {
    ...{ forward: of('forward'), input: of('input'), weight: of('weight') },
    ...{ waited: of('waited'), start: of('start'), end: of('end') },
  }
}

function shortStageTime(setup: Setup, traffic: BlockTraffic, blocks: FlyingBlocks, stage: RankLayers): StageTime {
  const { shape, split } = setup
  const held = blocksOf(blocks, stage, shape.tied)
  const alone = { ...plainTime(held), waited: 0 }
  if (dataRanks(split) === 1) return { ...alone, start: 0, end: 0 }
  const repeats = fetchesEach(split) || reducesEach(split)
  const steady = repeats ? play(setup, traffic, held, few).steady : alone
  const rounds = Math.min(split.microbatches, repeats ? few : 1)
  const { first, total } = play(setup, traffic, held, rounds)
  const start = Math.max(0, first - steady.forward)
  return { ...steady, start, end: total - start - rounds * (steady.forward + steady.input + steady.weight) }
}

function plainTime(blocks: readonly FlyingBlock[]): RankTime {
  const of = (phase: keyof RankTime) => blocks.reduce((sum, { time }) => sum + time[phase], 0)
  return { forward: of('forward'), input: of('input'), weight: of('weight') }
}

type Task = 'F' | 'B' | 'I' | 'W'

const phasesOf: Readonly<Record<Task, readonly (keyof RankTime)[]>> = {
  F: ['forward'],
  B: ['input', 'weight'],
  I: ['input'],
  W: ['weight'],
}

/** Tasks of so many microbatches, one after the other, or all forwards first. */
function rowOf(split: Split, rounds: number): Task[] {
  const back: readonly Task[] = splitsAll(split) ? ['I', 'W'] : ['B']
  const times = (tasks: readonly Task[]) => Array.from({ length: rounds }, () => tasks).flat()
  return scheduleFacts[split.schedule].forwardsFirst ? [...times(['F']), ...times(back)] : times(['F', ...back])
}

const policyOf = (split: Split): DataPolicy => ({
  gather: split.zero === 0 ? 'never' : fetchesEach(split) ? 'use' : 'step',
  reduce: reducesEach(split) ? 'call' : 'step',
  bucket: split.bucket ?? usualFlights.bucket,
  prefetch: split.prefetch ?? usualFlights.prefetch,
  waits: false,
})

interface BlockCall {
  readonly task: number
  readonly block: FlyingBlock
  readonly seconds: number
  /** Of these, waiting for tp. */
  readonly waits: number
}

function callsOf(row: readonly Task[], blocks: readonly FlyingBlock[]): BlockCall[] {
  return row.flatMap((kind, task) => {
    const sum = (of: RankTime) => phasesOf[kind].reduce((seconds, phase) => seconds + of[phase], 0)
    return (kind === 'F' ? blocks : blocks.toReversed()).flatMap((block): BlockCall[] => {
      const call = { task, block, seconds: sum(block.time), waits: sum(block.time.waits) }
      return kind === 'I' && call.seconds === 0 ? [] : [call]
    })
  })
}

interface Played {
  /** The first forward, one microbatch among others, and all there is. */
  readonly first: number
  readonly steady: RankTime & { readonly waited: number }
  readonly total: number
}

function play(setup: Setup, traffic: BlockTraffic, blocks: readonly FlyingBlock[], rounds: number): Played {
  const { split, software } = setup
  const row = rowOf(split, rounds)
  const calls = callsOf(row, blocks)
  const flyers = new Map(blocks.flatMap(({ params }) => params.map(param => [param.name, param] as const)))
  const adds = new Map(blocks.map(({ params, add }) => [params[0].name, add]))
  const plan = planFlights(
    calls.map(({ task, block: { params, readsBack } }) => ({
      reads: row[task] === 'F' || (row[task] !== 'W' && readsBack) ? params.map(({ name }) => name) : [],
      makes: row[task] === 'B' || row[task] === 'W' ? params.map(({ name }) => name) : [],
    })),
    policyOf(split),
    name => software.gradientBytes * flyers.get(name)!.elements,
  )
  const lane = new Lane(software.contention, traffic.shared)
  const arrivals = new Map<Flight, number>()
  const fly = (events: readonly FlightEvent[]) => {
    for (const { event, flight } of events)
      if (event === 'wait') lane.wait(arrivals.get(flight)!)
      else if (event === 'add') lane.work(adds.get(flight.params[0])!)
      else arrivals.set(flight, lane.start(traffic[flight.kind](flight.params.map(name => flyers.get(name)!))))
  }
  const [ends, waited]: [number[], number[]] = [[], []]
  fly(plan.begin)
  for (const [i, { task, seconds, waits }] of calls.entries()) {
    // A task without calls ends when the one before it does.
    while (ends.length < task) ends.push(lane.now)
    while (waited.length < task) waited.push(lane.waited)
    fly(plan.before[i])
    // A layer waits for tp about twice.
    for (let half = 0; half < 2; half++) {
      lane.work((seconds - waits) / 2)
      lane.meet(waits / 2)
    }
    fly(plan.after[i])
    ends[task] = lane.now
    waited[task] = lane.waited
  }
  while (ends.length < row.length) ends.push(lane.now)
  while (waited.length < row.length) waited.push(lane.waited)
  fly(plan.end)
  return { first: ends[0], steady: steadyOf(row, blocks, ends, waited), total: lane.now }
}

/** The second of the microbatches, where there are several. */
function steadyOf(
  row: readonly Task[],
  blocks: readonly FlyingBlock[],
  ends: readonly number[],
  waited: readonly number[],
): Played['steady'] {
  const among = (task: Task) => {
    const all = row.flatMap((other, i) => (other === task ? [i] : []))
    const at = all[Math.min(1, all.length - 1)] ?? 0
    const [from, before] = at === 0 ? [0, 0] : [ends[at - 1], waited[at - 1]]
    return all.length === 0 ? { time: 0, waited: 0 } : { time: ends[at] - from, waited: waited[at] - before }
  }
  const [F, B, I, W] = (['F', 'B', 'I', 'W'] as const).map(among)
  const { weight } = plainTime(blocks)
  const whole = B.time > 0
  return {
    forward: F.time,
    input: whole ? B.time - weight : I.time,
    weight: whole ? weight : W.time,
    waited: F.waited + B.waited + I.waited + W.waited,
  }
}
