export * from './native/index.js'
export * from './reference/index.js'
export * from './runner.js'
export * from './trainer.js'
