export * from './setup.js'
export * from './shape.js'
export * from './software.js'
