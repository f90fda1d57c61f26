/** The machine that was measured, as a cluster whose devices are the threads of its engine. */
import { mean } from '../base/index.js'
import {
  type Cluster,
  type CollectivePoint,
  type Curves,
  type Device,
  digits,
  type MatmulPoint,
} from '../cluster/index.js'
import { fitAttention, fitMatmul, flopsOf, type Kernel, trafficOf } from '../cost/index.js'
import type { Observation } from './observe.js'
import { physical, type Sized } from './physical.js'

export interface Machine {
  /** What the processor is called, and which kernels ran. */
  readonly title: string
  readonly kernels: string
  readonly cores: number
  readonly memory: number
  readonly date: string
}

export function machineCluster(
  machine: Machine,
  kernels: readonly Observation[],
  timed: readonly CollectivePoint[],
  devices = machine.cores,
): Cluster {
  const { cores } = machine
  const observations = physical(kernels, ({ kernel }) => sizedOf(kernel))
  const collectives = physical(timed, ({ kind, ranks, bytes }) => ({ kind: `${kind} ${ranks}`, sizes: [bytes] }))
  const evidence = `measured by lockstep calibrate, ${machine.date}: ${observations.length} kernels inside training steps on ${cores} cores at once, ${collectives.length} collectives; ${machine.kernels}`
  const latency = Math.min(...collectives.map(({ seconds }) => seconds), 1e-5)
  const bandwidth = Math.max(...collectives.map(({ bytes, seconds }) => bytes / seconds), 1e9)
  const link = {
    kind: 'memory',
    bandwidth: digits(bandwidth),
    efficiency: 1,
    latency: digits(latency),
    half: 0,
  } as const
  return {
    name: 'this-machine',
    device: machineDevice(machine, observations, evidence),
    devices,
    cores,
    topology: {
      kind: 'tree',
      levels: [{ name: 'machine', size: devices, link, ports: 1, oversubscription: 1, measured: [...collectives] }],
    },
    sources: [evidence],
  }
}

function sizedOf(kernel: Kernel): Sized {
  if (kernel.kind === 'memory') return { kind: `${kernel.op}`, sizes: [trafficOf(kernel)] }
  const { kind, precision, batch } = kernel
  if (kernel.kind === 'matmul') return { kind: `${kind} ${precision}`, sizes: [batch, kernel.m, kernel.n, kernel.k] }
  const { pass, heads, queries, keys, headDim, causal, dropout } = kernel
  return {
    kind: JSON.stringify([kind, precision, pass, causal, dropout]),
    sizes: [batch * heads, queries, keys, headDim],
  }
}

function machineDevice(machine: Machine, observations: readonly Observation[], evidence: string): Device {
  const points = matmuls(observations)
  const kernels = memoryKernels(observations)
  const rates = streamedRates(observations)
  const base: Device = {
    name: 'this-machine',
    title: machine.title,
    peak: { f32: digits(best(observations.map(({ kernel, seconds }) => flopsOf(kernel) / seconds))) },
    bandwidth: digits(best(rates)),
    memory: Math.floor(machine.memory / machine.cores),
    reserve: { bytes: 0, fraction: 0 },
    curves: {
      matmul: { efficiency: { f32: 1 }, tile: [8, 8], units: 1, halfK: 0, measured: [] },
      attention: { forward: 0.5, backward: 0.5 },
      memory: { efficiency: 1, half: 0 },
      floor: digits(Math.min(...observations.map(({ seconds }) => seconds), 1e-6)),
    },
    sources: [evidence],
  }
  return {
    ...base,
    curves: {
      ...base.curves,
      matmul: fitMatmul(points, base, 1),
      attention: fitAttention(attentions(observations), base, 'f32', 1),
      memory: { efficiency: digits(middle(rates) / base.bandwidth), half: 0, kernels },
    },
  }
}

/** Ops that do next to nothing with each element they read and write. */
const streams = ['accumulate', 'sgd', 'adamw']

/** Bytes per second of kernels too large for the nearest cache. */
const streamedRates = (observations: readonly Observation[]): number[] =>
  observations.flatMap(({ kernel, seconds }) =>
    kernel.kind === 'memory' && streams.includes(kernel.op ?? '') && trafficOf(kernel) > 2 ** 15
      ? [trafficOf(kernel) / seconds]
      : [],
  )

const middle = (rates: readonly number[]): number => rates.toSorted((a, b) => a - b)[rates.length >> 1] ?? 1

const best = (rates: readonly number[]): number => rates.reduce((most, rate) => Math.max(most, rate), 1)

const matmuls = (observations: readonly Observation[]): MatmulPoint[] =>
  observations.flatMap(({ kernel, seconds }) => {
    if (kernel.kind !== 'matmul' || kernel.batch !== 1) return []
    const { m, n, k, precision } = kernel
    return [{ m, n, k, precision, seconds: digits(seconds) }]
  })

const attentions = (observations: readonly Observation[]) =>
  observations.flatMap(({ kernel, seconds }) => {
    if (kernel.kind !== 'attention') return []
    const { kind: _, precision: __, generation: ___, ...shape } = kernel
    return [{ ...shape, seconds: digits(seconds) }]
  })

/** Times by op and by bytes, each size once. */
function memoryKernels(observations: readonly Observation[]): NonNullable<Curves['memory']['kernels']> {
  const sizes = new Map<string, Map<number, number[]>>()
  for (const { kernel, seconds } of observations) {
    if (kernel.kind !== 'memory' || kernel.op === undefined) continue
    const own = sizes.get(kernel.op) ?? new Map<number, number[]>()
    sizes.set(kernel.op, own)
    const bytes = trafficOf(kernel)
    own.set(bytes, [...(own.get(bytes) ?? []), seconds])
  }
  return Object.fromEntries(
    [...sizes].map(([op, own]) => [
      op,
      [...own]
        .filter(([bytes]) => bytes > 0)
        .sort(([a], [b]) => a - b)
        .map(([bytes, times]): [number, number] => [bytes, digits(mean(times))]),
    ]),
  )
}
