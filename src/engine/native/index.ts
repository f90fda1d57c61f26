/** The public API of `lockstep/engine`. The topics are the sections of docs/reference/lockstep-engine.md. */

// Engine
export { type EngineOptions, type EngineStep, startEngine } from './run/engine.js'
export { EngineError, flightRecord, type RankReport } from './run/flight.js'
export { RefusalError } from './lower/shapes.js'
export { Pool } from './run/pool.js'

// Process groups of threads
export { createGroup, type Group } from './group/group.js'
export { joinGroup, type Member } from './group/member.js'
export type { GroupOptions, GroupToken } from './group/heap.js'
export type { Collectives, Combine as GroupCombine, Tensor } from './group/collectives.js'
export { type ElementType, elementTypes } from '../../base/index.js'
export { type BenchOptions, type BenchRow, benchCollectives } from './group/bench-collectives.js'
export { type BenchOp, benchOps } from './group/bench-ops.js'

// Kernels
export * from './kernels/kernels.js'
export { wasmKernels } from './kernels/wasm.js'

// Command lists
export { type Fusion, fusionOf } from './lower/fuse.js'
export { lower } from './lower/lower.js'
export type { LoweredProgram } from './lower/lowered.js'
export * from './lower/commands.js'
export * from './lower/writer.js'
