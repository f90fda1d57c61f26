export * from './schedule/index.js'
