export * from './diagnose.js'
