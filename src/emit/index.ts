export { type Earlier, emit, emitProgram, emitting, type Files } from './emit.js'
export { heldBytes } from './held.js'
export { devicesPerNode } from './launchers.js'
export type { LearningRate, Run, RunData } from './run.js'
