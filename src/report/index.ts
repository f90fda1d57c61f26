export * from './timeline.js'
