export * from './memory.js'
export * from './origins.js'
export * from './row.js'
