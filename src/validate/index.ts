export * from './row.js'
