import { platform } from '../platform/index.js'

/** Processor time of this process so far; 0 where nobody knows. */
export const processorSeconds = (): number => platform.cpuSeconds()
