import { setFlagsFromString } from 'node:v8'

/** V8 compiles each function when it is first called: a search of seconds takes a tenth less, a short command would take more. */
export const compileSoon = (): void => setFlagsFromString('--always-sparkplug')
