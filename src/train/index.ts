export * from './checkpoints.js'
export * from './dataset.js'
export * from './saving.js'
export * from './session.js'
