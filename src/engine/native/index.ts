export * from './commands.js'
export * from './kernels.js'
export { wasmKernels } from './wasm.js'
export * from './writer.js'
