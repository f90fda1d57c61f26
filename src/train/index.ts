export * from './checkpoints.js'
export * from './dataset.js'
export * from './session.js'
