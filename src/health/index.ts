export * from './event.js'
export * from './run-info.js'
export * from './run-reader.js'
