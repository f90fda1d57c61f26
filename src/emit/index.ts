export { type Earlier, emit, emitProgram, emitting, type Files } from './emit.js'
export { devicesPerNode } from './launchers.js'
export { heldBytes } from './peak-memory.js'
export type { LearningRate, Run, RunData } from './run.js'
