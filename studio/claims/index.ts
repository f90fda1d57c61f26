/** Claims of the course notes, each settled by running the compiler, the simulator or the interpreter. */
import { activations } from './activations.js'
import { bandwidth } from './bandwidth.js'
import { cases } from './cases.js'
import type { Claim } from './claim.js'
import { clinic } from './clinic.js'
import { context } from './context.js'
import { dataParallel } from './data-parallel.js'
import { hardware } from './hardware.js'
import { memory } from './memory.js'
import { overlap } from './overlap.js'
import { pipeline } from './pipeline.js'
import { placement } from './placement.js'
import { precision } from './precision.js'
import { scaling } from './scaling.js'
import { tensor } from './tensor.js'
import { zero } from './zero.js'

export { type Claim, type Settled, settle, type Values, type Verdict, type Words } from './claim.js'
export { type Core, core } from './core.js'
export { type Lab, labOf } from './lab.js'
export { type LearnPage, learnPages } from './pages.js'
export { type Unit, written } from './units.js'

export const claims: readonly Claim[] = [
  ...memory,
  ...hardware,
  ...bandwidth,
  ...dataParallel,
  ...zero,
  ...overlap,
  ...tensor,
  ...activations,
  ...pipeline,
  ...placement,
  ...scaling,
  ...precision,
  ...context,
  ...cases,
  ...clinic,
]
