export * from './event-file.js'
export * from './progress.js'
export * from './tail.js'
export * from './tensorboard.js'
