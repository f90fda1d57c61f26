export * from './curve.js'
export * from './lanes.js'
export * from './timeline.js'
