export { emit, emitting, type Files, type Smaller } from './emit.js'
export { heldBytes } from './held.js'
export type { LearningRate, Run, RunData } from './run.js'
