/** Claims of the course notes, each settled by running the compiler, the simulator or the interpreter. */
import { bandwidth } from './bandwidth.js'
import type { Claim } from './claim.js'
import { hardware } from './hardware.js'
import { memory } from './memory.js'
import { pipeline } from './pipeline.js'
import { zero } from './zero.js'

export { type Claim, type Settled, settle, type Values, type Verdict, type Words } from './claim.js'
export { type Core, core } from './core.js'
export { type Lab, labOf } from './lab.js'
export { type LearnPage, learnPages } from './pages.js'
export { type Unit, written } from './units.js'

export const claims: readonly Claim[] = [...memory, ...hardware, ...bandwidth, ...zero, ...pipeline]
