export * from './kernel.js'
