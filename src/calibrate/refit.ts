/**
 * A cluster as a run found it: of what it was said to be, each rate is changed by one factor, the one with which the prices of
 * all that depends on it add up to what was measured.
 */
import { type Cluster, type Device, type Level, linksIn } from '../cluster/index.js'
import { isKernel, workOf } from '../cost/index.js'
import { type Collective, type Instr, isCollective, type Program, type Segment } from '../ir/index.js'
import { machinePrices } from './machine-prices.js'
import { simulateOn } from './prediction.js'
import { timedStages } from './stage-times.js'
import type { Rate, Timed } from './timed.js'
import type { RunTimes } from './times.js'

export interface Change {
  /** `memory bandwidth`, `infiniband bandwidth` */
  readonly what: string
  readonly given: number
  readonly measured: number
}

export interface Refit {
  readonly cluster: Cluster
  /** Rates that are not what was said, by more than a little. */
  readonly changes: readonly Change[]
}

/** Rates that differ by less are as they were said to be. */
const little = 0.03

export function refit(program: Program, given: Cluster, times: RunTimes): Refit {
  const timed = timedOf(program, given, times)
  const sized = times.memory === undefined ? given : { ...given, device: { ...given.device, memory: times.memory } }
  const links = machinePrices(program, given).links.map(link => ({ link }))
  const cluster = [...(['memory', 'matmul', 'attention', 'arithmetic'] as const), ...links].reduce(
    (cluster: Cluster, rate) => fitted(program, cluster, rate, timed),
    sized,
  )
  return { cluster, changes: changesOf(given, cluster) }
}

/** Seconds of a step of a program on a cluster, or on a machine whose ranks take turns. */
export const predictedStep = (program: Program, cluster: Cluster): number => simulateOn(program, cluster).step

function timedOf(program: Program, given: Cluster, { instructions, messages, stages = [] }: RunTimes): Timed[] {
  const { links, collective, message } = machinePrices(program, given)
  const known = instructions.flatMap(([name, index, kind, seconds, beside]): Timed[] => {
    const segment = program.segments[name]
    const instr = segment?.instrs[index]
    if (instr?.kind !== kind || !(seconds > 0)) return []
    if (isCollective(instr)) {
      const { link } = collective(instr, segment)
      return link < 0 ? [] : [{ rate: { link: links[link] }, seconds, beside: false, price: carried(instr, segment) }]
    }
    const work = workOf(instr, segment, program)
    return isKernel(work) ? [{ rate: work.kind, seconds, beside, price: computed(instr, segment) }] : []
  })
  // Messages between threads of one machine are no more than words.
  const sent = given.cores === undefined ? messages : []
  return [
    ...known,
    ...timedStages(program, machinePrices(program, given), stages),
    ...sent.flatMap(([bytes, from, to, seconds]): Timed[] =>
      seconds > 0
        ? [
            {
              ...{ rate: { link: links[message(bytes, from, to).link] }, seconds, beside: false },
              price: prices => prices.message(bytes, from, to).seconds,
            },
          ]
        : [],
    ),
  ]
}

const carried =
  (instr: Collective, segment: Segment): Timed['price'] =>
  prices =>
    prices.collective(instr, segment).seconds
const computed =
  (instr: Instr, segment: Segment): Timed['price'] =>
  prices =>
    prices.compute(instr, segment)

const sameRate = (a: Rate, b: Rate): boolean =>
  typeof a === 'string' || typeof b === 'string' ? a === b : a.link === b.link

/** How far off a rate may be, either way. */
const [slowest, halvings] = [256, 40]

/** The factor between 1/256 and 256 with which prices add up to what was measured; prices rise with it. */
function fitted(program: Program, cluster: Cluster, rate: Rate, timed: readonly Timed[]): Cluster {
  const given = machinePrices(program, cluster)
  const all = timed.filter(one => sameRate(one.rate, rate) && one.price(given) > 0)
  const alone = all.filter(({ beside }) => !beside)
  const own = alone.length > 0 ? alone : all
  const measured = own.reduce((sum, { seconds }) => sum + seconds, 0)
  if (own.length === 0) return cluster
  const priced = (by: number) => {
    const prices = machinePrices(program, slowedBy(cluster, rate, by))
    return own.reduce((sum, { price }) => sum + price(prices), 0)
  }
  let [low, high] = [-Math.log(slowest), Math.log(slowest)]
  for (let i = 0; i < halvings; i++) {
    const middle = (low + high) / 2
    if (priced(Math.exp(middle)) < measured) low = middle
    else high = middle
  }
  return slowedBy(cluster, rate, Math.exp((low + high) / 2))
}

/** The same cluster, but what depends on this rate takes so many times as long. */
function slowedBy(cluster: Cluster, rate: Rate, by: number): Cluster {
  if (typeof rate === 'string') return { ...cluster, device: slowed[rate](cluster.device, by) }
  const { topology } = cluster
  const link = <T extends Level['link']>(of: T): T =>
    of.kind === rate.link ? { ...of, bandwidth: of.bandwidth / by, latency: of.latency * latencyBy(by) } : of
  if (topology.kind === 'torus') {
    const slices = topology.slices && { slices: { ...topology.slices, link: link(topology.slices.link) } }
    return { ...cluster, topology: { ...topology, link: link(topology.link), ...slices } }
  }
  const levels = topology.levels.map(level => ({
    ...level,
    link: link(level.link),
    ...(level.measured && level.link.kind === rate.link && { measured: later(level.measured, by) }),
  }))
  return { ...cluster, topology: { ...topology, levels } }
}

/** A slower link is not further away; threads that share memory wait for each other as they do everything else. */
const latencyBy = (by: number): number => Math.min(1, by)

const later = <T extends { readonly seconds: number }>(points: readonly T[], by: number): T[] =>
  points.map(point => ({ ...point, seconds: point.seconds * by }))

const slowed: Readonly<Record<Extract<Rate, string>, (device: Device, by: number) => Device>> = {
  arithmetic: (device, by) => slowed.attention(slowed.matmul(device, by), by),
  memory: (device, by) => ({
    ...device,
    bandwidth: device.bandwidth / by,
    curves: {
      ...device.curves,
      memory: {
        ...device.curves.memory,
        ...(device.curves.memory.kernels && {
          kernels: Object.fromEntries(
            Object.entries(device.curves.memory.kernels).map(([op, points]) => [
              op,
              points.map(([bytes, seconds]): [number, number] => [bytes, seconds * by]),
            ]),
          ),
        }),
      },
    },
  }),
  matmul: (device, by) => {
    const { matmul, attention } = device.curves
    const peak = Object.fromEntries(Object.entries(device.peak).map(([name, rate]) => [name, rate / by]))
    return {
      ...device,
      peak,
      curves: {
        ...device.curves,
        matmul: { ...matmul, measured: later(matmul.measured, by) },
        // Attention has a factor of its own: what was lost to the peak is given back.
        attention: { ...attention, forward: attention.forward * by, backward: attention.backward * by },
      },
    }
  },
  attention: (device, by) => {
    const { attention } = device.curves
    const { forward, backward, measured } = attention
    return {
      ...device,
      curves: {
        ...device.curves,
        attention: {
          ...{ ...attention, forward: forward / by, backward: backward / by },
          ...(measured && { measured: later(measured, by) }),
        },
      },
    }
  },
}

function changesOf(given: Cluster, found: Cluster): Change[] {
  const linksOf = ({ topology }: Cluster) => linksIn(topology)
  const peak = ({ device }: Cluster) => Math.max(...Object.values(device.peak))
  const all: Change[] = [
    { what: 'memory of a device', given: given.device.memory, measured: found.device.memory },
    { what: 'memory bandwidth', given: given.device.bandwidth, measured: found.device.bandwidth },
    { what: 'peak of matmuls', given: peak(given), measured: peak(found) },
    ...linksOf(given).map(({ kind, bandwidth }, i) => ({
      ...{ what: `${kind} bandwidth`, given: bandwidth, measured: linksOf(found)[i].bandwidth },
    })),
  ]
  return all.filter(({ given, measured }) => Math.abs(measured / given - 1) > little)
}
