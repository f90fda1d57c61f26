/** This machine measured by small training steps and collectives on its engine, in turns with whatever else is timed. */
import { type Cluster, type CollectivePoint, collectiveKinds, digits } from '../cluster/index.js'
import { compileJob } from '../compile/index.js'
import { type BenchOp, type BenchRow, benchCollectives } from '../engine/native/index.js'
import type { Job } from '../plan/index.js'
import { syntheticOf } from '../train/index.js'
import { type Machine, machineCluster } from './machine.js'
import { areSettled, merged, type Observer, observer, undisturbed } from './observe.js'
import { probesFor } from './probes.js'
import { type Start, trainee } from './turns.js'

/** This machine as its operating system describes it. */
export interface Host {
  readonly cpu: string
  readonly cores: number
  readonly memory: number
}

/** What such a machine is called. */
export const titleOf = ({ cpu, cores }: Pick<Host, 'cpu' | 'cores'>): string => `${cpu}, ${cores} cores`

/** Measurements of this machine in progress, and the cluster they make. */
export interface Calibration {
  readonly starts: readonly Start[]
  /** Whether the samples agree; if not, the machine was busy and another round is worthwhile. */
  settled(): boolean
  /** The measured cluster, once `starts` have run. By default it has a device per core. */
  cluster(devices?: number): Cluster
}

/** Prepares the measurement of kernels and collectives on this machine. Run its `starts` with `inTurns`. */
export function calibration(host: Host, quick: boolean): Calibration {
  const { cores } = host
  const jobs = probesFor(cores)
  const probes = (quick ? jobs.slice(0, 2) : jobs).map(probeOf)
  const collectives = timedCollectives(cores, quick)
  return {
    starts: [...probes.map(({ start }) => start), collectives.start],
    settled: () => collectives.times.settled() && probes.every(({ seen }) => seen.settled()),
    cluster: devices =>
      machineCluster(
        machineOf(host, probes[0].kernels().replace(/, (\d+ ranks|one rank).*$/, '')),
        merged(probes.flatMap(({ seen }) => merged(seen.observations()))),
        collectives.times.points(),
        devices,
      ),
  }
}

function probeOf(job: Job): { start: Start; seen: Observer; kernels: () => string } {
  const program = compileJob(job)
  const seen = observer(program)
  let description = ''
  const start = trainee(job, program, syntheticOf(job), ({ spans, kernels }) => {
    seen.add(spans)
    description = kernels
  })
  return { start, seen, kernels: () => description }
}

const machineOf = (host: Host, kernels: string): Machine => ({
  title: titleOf(host),
  ...{ kernels, cores: host.cores, memory: host.memory, date: new Date().toISOString().slice(0, 10) },
})

const sizes = [64, 2 ** 10, 2 ** 13, 2 ** 16, 2 ** 19, 2 ** 22]
/** Few, but they span what a small step sends: beyond the largest a time grows in proportion. */
const quickSizes = [64, 2 ** 13, 2 ** 20]
const benched: Readonly<Record<CollectivePoint['kind'], BenchOp>> = {
  ...{ 'all-reduce': 'all-reduce', 'all-gather': 'all-gather', 'reduce-scatter': 'reduce-scatter' },
  ...{ 'all-to-all': 'all-to-all', broadcast: 'broadcast', send: 'send-recv' },
  ...{ reduce: 'reduce', gather: 'gather', scatter: 'scatter' },
}

export interface CollectiveTimes {
  add(row: Pick<BenchRow, 'op' | 'ranks' | 'bytes' | 'seconds'>): void
  points(): CollectivePoint[]
  settled(): boolean
}

export function collectiveTimes(): CollectiveTimes {
  const seen = new Map<string, { point: Omit<CollectivePoint, 'seconds'>; all: number[] }>()
  return {
    add({ op, ranks, bytes, seconds }) {
      const kind = collectiveKinds.find(of => benched[of] === op)
      if (!kind) return
      const point = { kind, ranks, bytes }
      const key = JSON.stringify(point)
      const known = seen.get(key) ?? { point, all: [] }
      seen.set(key, known)
      // Around the ring each rank sends one message and receives one.
      known.all.push(kind === 'send' ? seconds / 2 : seconds)
    },
    points: () => [...seen.values()].map(({ point, all }) => ({ ...point, seconds: digits(undisturbed(all)) })),
    settled: () => areSettled([...seen.values()].map(({ all }) => all)),
  }
}

/** At 2, 4, ... ranks, up to twice the cores: a turn is of one number of ranks. */
function timedCollectives(cores: number, quick: boolean): { start: Start; times: CollectiveTimes } {
  const counts = [2, 4, 8, 16, 32, 64].filter(ranks => ranks <= Math.max(4, 2 * cores)).slice(0, quick ? 1 : undefined)
  const times = collectiveTimes()
  let turns = 0
  const turn = async () => {
    const ranks = counts[turns++ % counts.length]
    const ops = Object.values(benched)
    for await (const row of benchCollectives({ ranks, ops, sizes: quick ? quickSizes : sizes, repeats: 3 }))
      times.add(row)
  }
  return { start: async () => ({ turn, stop: async () => {} }), times }
}
