export * from './reference/index.js'
