/** Jobs beside each other: what their ranks hold, what a step takes on a cluster and where it goes, and what their layers say to each other. */
import { clusterOf, clusterPrices, type Parts, rankTraffic, simulate, tallyOf, worldOf } from 'lockstep'
import { type Bytes, type JobText, peakOf, programOf } from './jobs.js'

export interface ComparedInput {
  readonly jobs: readonly JobText[]
  readonly device: string
}

export interface Compared {
  readonly job: JobText
  readonly bytes: Bytes
  readonly step: number
  readonly parts: Parts
  /** Collectives of one layer: `all-gather tp`, in order, forward and backward. */
  readonly forward: readonly string[]
  readonly backward: readonly string[]
  /** Bytes of the rank that needs most, all kinds at once, and what leaves it over links in the step. */
  readonly arena: number
  readonly sent: number
  readonly capacity: number
}

export const compared = ({ jobs, device }: ComparedInput): readonly Compared[] => jobs.map(job => one(job, device))

function one(job: JobText, device: string): Compared {
  const program = programOf(job)
  const cluster = clusterOf(device, worldOf(program.mesh))
  const prices = clusterPrices(program, cluster)
  const { step, parts, memory } = simulate(program, prices, { watch: [] })
  const { segments } = tallyOf(program)
  const meets = (name: string) => (segments.get(name)?.instrs ?? []).filter(instr => instr.includes(' '))
  return {
    ...{ job, bytes: peakOf(program), step, parts, capacity: cluster.device.memory },
    forward: meets('layers.F'),
    backward: meets('layers.B'),
    arena: Math.max(...program.streams.map(({ arena }) => arena)),
    sent: rankTraffic(program, prices, memory.pp).reduce((sum, { sent }) => sum + sent, 0),
  }
}
