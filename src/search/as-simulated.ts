/** A plan with the numbers of its simulated program. On its own, so that a page that shows one loads no compiler. */
import { seconds } from '../base/index.js'
import type { Estimate, Footprint } from '../estimate/index.js'
import type { Parts } from '../metrics/index.js'
import type { Simulation } from '../simulate/index.js'
import type { Priced } from './search.js'

/** What the simulation of a program tells of a plan. */
interface SimulatedFigures {
  readonly step: number
  readonly parts: Parts
  /** The arena of the heaviest rank. */
  readonly arena: number
  /** FLOPs of recomputation, counted as MFU counts. */
  readonly recomputed: number
  readonly memory?: Footprint
}

/** A plan with the numbers of its simulated program in place of the estimate's: its parts are means over ranks. */
export function asSimulated(
  plan: Priced,
  { step, parts, arena, recomputed, memory = plan.estimate.memory }: SimulatedFigures,
): Priced {
  const { flops } = plan.estimate
  return {
    split: plan.split,
    estimate: {
      step: seconds(step),
      parts: parts as unknown as Estimate['parts'], // seconds, under the same names and more
      memory,
      flops: { model: flops.model, hardware: flops.model + recomputed },
    },
    bytes: arena,
  }
}

/** FLOPs of recomputation as MFU counts: executed attention leaves out the masked half, PaLM's definition includes it. */
export const recomputedOf = ({ flops }: Pick<Simulation, 'flops'>): number => flops.repeated + flops.repeatedAttention
