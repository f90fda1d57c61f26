export * from './platform.js'
