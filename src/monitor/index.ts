export * from './event-file.js'
export * from './tensorboard.js'
