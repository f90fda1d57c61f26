export * from './reference/index.js'
export * from './trainer.js'
