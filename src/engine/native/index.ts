export { type ElementType, elementTypes } from '../../base/index.js'
export {
  type BenchOp,
  type BenchOptions,
  type BenchRow,
  benchCollectives,
  benchOps,
} from './group/bench-collectives.js'
export type { Collectives, Combine as GroupCombine, Tensor } from './group/collectives.js'
export { createGroup, type Group } from './group/group.js'
export type { GroupOptions, GroupToken } from './group/heap.js'
export { joinGroup, type Member } from './group/member.js'
export * from './kernels/kernels.js'
export { wasmKernels } from './kernels/wasm.js'
export * from './lower/commands.js'
export { type Fusion, fusionOf } from './lower/fuse.js'
export { type LoweredProgram, lower, RefusalError } from './lower/lower.js'
export * from './lower/writer.js'
export { type EngineOptions, type EngineStep, startEngine } from './run/engine.js'
export { EngineError, flightRecord, type RankReport } from './run/flight.js'
export { Pool } from './run/pool.js'
