/** Weights of linear layers become codes: once a step where they are whole for as long, else in every forward, and once more in backward. */
import { activationBytes, isCast } from '../../base/index.js'
import { priceCollective, priceInStep } from '../../cost/index.js'
import { fetchesEach } from '../schedules/stages.js'
import type { Setup } from '../setup.js'

/** What is coded: all of it together, and how many tensors it is. */
interface CodedWeights {
  readonly parameters: number
  readonly matrices: number
}

/** Seconds of a step. */
export function codingOfWeights(setup: Setup, { parameters, matrices }: CodedWeights): number {
  const { split, precision, cluster, software } = setup
  if (!software.own || !isCast(precision) || parameters === 0) return 0
  const read = activationBytes(precision) * parameters
  const pass = (written: number) => priceInStep({ kind: 'memory', read, written }, cluster.device)
  const [greatest, coded] = [pass(0), pass(parameters)]
  const ways = split.fp8 === 'mx' ? 2 : 1
  const agreed = split.fp8 === 'current' && split.tp > 1 ? matrices * agreement(setup) : 0
  if (fetchesEach(split)) return split.microbatches * (ways * greatest + 2 * coded + agreed)
  // What is greatest in a microbatch is what scales of later steps follow.
  return split.fp8 === 'delayed' ? split.microbatches * greatest + coded : ways * (greatest + coded) + agreed
}

const agreement = ({ cluster, split }: Pick<Setup, 'cluster' | 'split'>): number =>
  priceCollective({ kind: 'all-reduce', bytes: 4, group: { size: split.tp, stride: 1 } }, cluster)

/** Bytes of the codes that are kept while a step lasts, of each parameter. */
export const keptCodes = ({ split, precision }: Pick<Setup, 'split' | 'precision'>): number =>
  !isCast(precision) || fetchesEach(split) ? 0 : split.fp8 === 'mx' ? 2.25 : 1
