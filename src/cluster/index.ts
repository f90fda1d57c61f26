export * from './cluster.js'
export * from './device.js'
