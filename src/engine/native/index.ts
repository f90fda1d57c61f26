export { type ElementType, elementTypes } from '../../base/index.js'
export {
  type BenchOp,
  type BenchOptions,
  type BenchRow,
  benchCollectives,
  benchOps,
} from './group/bench-collectives.js'
export type { Collectives, Combine as GroupCombine, Tensor } from './group/collectives.js'
export { createGroup, type Group, type GroupOptions, type GroupToken, joinGroup, type Member } from './group/group.js'
export * from './kernels/kernels.js'
export { wasmKernels } from './kernels/wasm.js'
export * from './lower/commands.js'
export { type Fusion, fusionOf } from './lower/fuse.js'
export { type Lowered, lower, RefusalError } from './lower/lower.js'
export * from './lower/writer.js'
export { type EngineOptions, type EngineStep, startEngine } from './run/engine.js'
export { EngineError, flightRecord, type RankReport } from './run/flight.js'
export { Pool } from './run/pool.js'
