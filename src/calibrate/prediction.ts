/** What a step is predicted to take on a cluster, and where its time goes, as run folders keep it. */
import { finish, type Work } from '../base/index.js'
import type { Cluster } from '../cluster/index.js'
import type { Prediction } from '../health/index.js'
import type { Program } from '../ir/index.js'
import { type Simulation, simulating, simulatingInTurns } from '../simulate/index.js'
import { machinePrices } from './machine-prices.js'

/** On a machine whose ranks are threads they take turns where cores are few. */
export const simulateOn = (program: Program, cluster: Cluster): Simulation => finish(simulatingOn(program, cluster))

/** `simulateOn` as a generator that yields the fraction done. */
export function simulatingOn(program: Program, cluster: Cluster): Work<Simulation> {
  const [prices, watch] = [machinePrices(program, cluster), { watch: [] }]
  return cluster.cores === undefined
    ? simulating(program, prices, watch)
    : simulatingInTurns(program, prices, cluster.cores, watch)
}

export const predictionOf = ({ name }: Cluster, { step, stages, parts }: Simulation): Prediction => {
  const own = ({ compute, recompute, optimizer, other }: Simulation['parts']) => compute + recompute + optimizer + other
  const { tp, cp, ep, dp } = parts
  const [compute, communication, waiting] = [own(parts), tp + cp + ep + dp, parts.stragglers].map(part => part / step)
  const rest = Math.max(0, 1 - compute - communication - waiting)
  return {
    ...{ cluster: name, seconds: step, stages: stages.map(own), network: { tp, cp, ep, dp } },
    shares:
      stages.length === 1
        ? { compute, communication, waiting: waiting + rest, bubble: 0 }
        : { compute, communication, waiting, bubble: rest },
  }
}
