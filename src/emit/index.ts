export { emit, emitting, type Files } from './emit.js'
export type { LearningRate, Run, RunData } from './run.js'
