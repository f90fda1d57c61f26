/** This machine measured, in turns with whoever else is: small training steps and collectives on its engine. */
import { type Cluster, type CollectivePoint, collectiveKinds, digits } from '../cluster/index.js'
import { compileJob } from '../compile/index.js'
import { type BenchOp, benchCollectives } from '../engine/native/index.js'
import type { Job } from '../plan/index.js'
import { syntheticOf } from '../train/index.js'
import { type Machine, machineCluster } from './machine.js'
import { merged, type Observer, observer, typical } from './observe.js'
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
  /** Once they had their turns. By default it has a device for each core. */
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
    cluster: devices =>
      machineCluster(
        machineOf(host, probes[0].kernels().replace(/, (\d+ ranks|one rank).*$/, '')),
        merged(probes.flatMap(({ seen }) => merged(seen.observations()))),
        collectives.points(),
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
const benched: Readonly<Record<CollectivePoint['kind'], BenchOp>> = {
  ...{ 'all-reduce': 'all-reduce', 'all-gather': 'all-gather', 'reduce-scatter': 'reduce-scatter' },
  ...{ 'all-to-all': 'all-to-all', broadcast: 'broadcast', send: 'send-recv' },
}

/** At 2, 4, ... ranks, up to twice the cores: a turn is of one number of ranks. */
function timedCollectives(cores: number, quick: boolean): { start: Start; points: () => CollectivePoint[] } {
  const counts = [2, 4, 8, 16, 32, 64].filter(ranks => ranks <= Math.max(4, 2 * cores)).slice(0, quick ? 1 : undefined)
  const seen = new Map<string, { point: Omit<CollectivePoint, 'seconds'>; all: number[] }>()
  let turns = 0
  const turn = async () => {
    const ranks = counts[turns++ % counts.length]
    const ops = Object.values(benched)
    for await (const row of benchCollectives({ ranks, ops, sizes: quick ? sizes.slice(0, 2) : sizes, repeats: 3 })) {
      const kind = collectiveKinds.find(of => benched[of] === row.op)
      if (!kind) continue
      const point = { kind, ranks, bytes: row.bytes }
      const key = JSON.stringify(point)
      if (!seen.has(key)) seen.set(key, { point, all: [] })
      // Round the ring everybody sends one message and receives one.
      seen.get(key)!.all.push(kind === 'send' ? row.seconds / 2 : row.seconds)
    }
  }
  const points = () => [...seen.values()].map(({ point, all }) => ({ ...point, seconds: digits(typical(all)) }))
  return { start: async () => ({ turn, stop: async () => {} }), points }
}
