/**
 * What the data axes move while our own program computes: its flights, planned as the compiler plans them. What moves for
 * each call is a property of its block; what moves once a step is planned here for each rank, from the first forward and
 * the last backward pass of each of its stages.
 */
import { usualFlights } from '../../plan/index.js'
import { type DataCall, type DataPolicy, type Flight, planFlights } from '../../schedule/index.js'
import { entry } from '../entry.js'
import { hasCopies } from '../experts.js'
import { sendsFactors } from '../factor-cost.js'
import type { Order, StageTurns } from '../schedules/order.js'
import type { PipelineFlights, StepFlights } from '../schedules/play.js'
import { fetchesEach, isFetched, type Pipeline, reducesEach } from '../schedules/stages.js'
import type { Setup, Split } from '../setup.js'
import type { BlockTraffic, Flyer, FlyingBlock, FlyingBlocks } from './flying.js'

/** Undefined: nothing flies. */
export function pipelineFlights(
  setup: Setup,
  traffic: BlockTraffic,
  blocks: FlyingBlocks,
  pipeline: Pipeline,
  order: Order,
  known: KnownFlights,
): PipelineFlights | undefined {
  const { split, software, shape } = setup
  if (!isFetched(split) && !traffic.messagesBesideTp) return undefined
  const stages = blocksOfStages(blocks, pipeline, shape.tied)
  const fetches = fetchesEach(split)
  const found: StepFlights[] = []
  return {
    blocks: stages,
    ofStep: rank => {
      const turns = order.turns[rank]
      found[rank] ??= atStages(
        turns,
        entry(known, keyOf(stages, turns), () => stepFlights(setup, traffic, stages, turns)),
      )
      return found[rank]
    },
    prefetch: fetches ? (split.prefetch ?? usualFlights.prefetch) : undefined,
    reducesEach: reducesEach(split),
    contention: software.contention,
    besideTp: traffic.besideTp,
    besideApart: traffic.besideApart,
    besideMessages: traffic.besideMessages,
    messagesBesideTp: traffic.messagesBesideTp,
    messagesBesideApart: traffic.messagesBesideApart,
    agrees: split.fp8 === 'current',
  }
}

/** In the order of forward. */
function blocksOfStages(blocks: FlyingBlocks, { stages, ranks }: Pipeline, tied: boolean): FlyingBlock[][] {
  const together = ranks.some(({ first, last }) => first && last)
  const { embedding, head, tiedHead } = blocks.ends()
  const last = stages.length - 1
  let layer = 0
  return stages.map((layers, stage) => {
    const own: FlyingBlock[] = stage === 0 ? [embedding] : []
    for (let i = 0; i < layers; i++) own.push(blocks.layerAt(layer++))
    if (stage === last) own.push(tied && together ? tiedHead : head)
    return own
  })
}

const policyOf = (split: Split): DataPolicy => ({
  gather: split.zero === 0 || !isFetched(split) || fetchesEach(split) ? 'never' : 'step',
  reduce: !hasCopies(split) || reducesEach(split) || sendsFactors(split) ? 'never' : 'step',
  bucket: split.bucket ?? usualFlights.bucket,
  prefetch: 0,
  waits: false,
})

type Stages = readonly (readonly FlyingBlock[])[]

/** What a rank moves once a step, by the places of its stages in their order: of plans that differ in their pipeline alone. */
export type KnownFlights = Map<string, PlacedFlights>

interface PlacedFlights {
  readonly arrivals: readonly (Float64Array | undefined)[]
  readonly departures: readonly (Float64Array | undefined)[]
  readonly begun: number
}

/** Stages by their blocks, in the order of their first forwards; then in that of their last gradients. */
function keyOf(stages: Stages, { firsts, lasts }: StageTurns): string {
  const blocks = firsts.map(stage => {
    const own = stages[stage]
    return `${own.length}${own[0]?.readsBack === false ? 'e' : ''}${own.at(-1)?.params[1]?.name ?? ''}`
  })
  return `${blocks.join()} ${lasts.map(stage => firsts.indexOf(stage)).join()}`
}

function atStages({ firsts, lasts }: StageTurns, { arrivals, departures, begun }: PlacedFlights): StepFlights {
  const byStage = (order: readonly number[], columns: PlacedFlights['arrivals']) =>
    new Map(order.flatMap((stage, at) => (columns[at] ? [[stage, columns[at]] as const] : [])))
  return { arrivals: byStage(firsts, arrivals), departures: byStage(lasts, departures), begun }
}

function stepFlights(
  setup: Setup,
  traffic: BlockTraffic,
  stages: Stages,
  { firsts, lasts }: StageTurns,
): PlacedFlights {
  const { split, software } = setup
  const policy = policyOf(split)
  const forward =
    policy.gather === 'never' ? [] : firsts.flatMap(stage => stages[stage].map((_, at) => ({ stage, at })))
  const backward =
    policy.reduce === 'never' ? [] : lasts.flatMap(stage => stages[stage].map((_, at) => ({ stage, at })).reverse())
  const paramsOf = ({ stage, at }: { stage: number; at: number }) => stages[stage][at].params
  const flyers = new Map([...forward, ...backward].flatMap(call => paramsOf(call).map(param => [param.name, param])))
  const names = (params: readonly Flyer[]) => params.map(({ name }) => name)
  const calls: DataCall[] = [
    ...forward.map(call => ({ reads: names(paramsOf(call)), makes: [] })),
    ...backward.map(call => ({ reads: [], makes: names(paramsOf(call)) })),
  ]
  const plan = planFlights(calls, policy, name => software.gradientBytes * flyers.get(name)!.elements)
  const secondsOf = ({ kind, params }: Flight) => {
    const own = params.map(name => flyers.get(name)!)
    // Parts come from the host while others are gathered.
    return kind === 'reduce' ? traffic.reduce(own) : Math.max(traffic.gather(own), traffic.lift(own))
  }
  const [arrivals, departures]: (Float64Array | undefined)[][] = [[], []]
  const column = (table: (Float64Array | undefined)[], order: readonly number[], stage: number): Float64Array => {
    const place = order.indexOf(stage)
    table[place] ??= new Float64Array(stages[stage].length)
    return table[place]
  }
  const arrived = new Map<Flight, number>()
  let begun = 0
  for (const { flight } of plan.begin) arrived.set(flight, (begun += secondsOf(flight)))
  for (const [i, { stage, at }] of forward.entries())
    for (const { flight } of plan.before[i]) column(arrivals, firsts, stage)[at] = arrived.get(flight)!
  for (const [i, { stage, at }] of backward.entries())
    for (const { flight } of plan.after[forward.length + i]) column(departures, lasts, stage)[at] = secondsOf(flight)
  return { arrivals, departures, begun }
}
