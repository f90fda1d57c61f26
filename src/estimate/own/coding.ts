/** Weights of linear layers become codes: once a step where they are whole for as long, else in every forward, and once more in backward. */
import { activationBytes, isCast } from '../../base/index.js'
import { priceInStep } from '../../cost/index.js'
import { fetchesEach } from '../schedules/stages.js'
import type { Setup } from '../setup.js'

/** Seconds of a step, of so many parameters that are coded. */
export function codingOfWeights({ split, precision, cluster, software }: Setup, parameters: number): number {
  if (!software.own || !isCast(precision) || parameters === 0) return 0
  const read = activationBytes(precision) * parameters
  const pass = (written: number) => priceInStep({ kind: 'memory', read, written }, cluster.device)
  const [greatest, coded] = [pass(0), pass(parameters)]
  const ways = split.fp8 === 'mx' ? 2 : 1
  if (fetchesEach(split)) return split.microbatches * (ways * greatest + 2 * coded)
  // What is greatest in a microbatch is what scales of later steps follow.
  return split.fp8 === 'delayed' ? split.microbatches * greatest + coded : ways * (greatest + coded)
}

/** Bytes of the codes that are kept while a step lasts, of each parameter. */
export const keptCodes = ({ split, precision }: Pick<Setup, 'split' | 'precision'>): number =>
  !isCast(precision) || fetchesEach(split) ? 0 : split.fp8 === 'mx' ? 2.25 : 1
