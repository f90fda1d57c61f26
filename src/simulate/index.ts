export * from './parts.js'
export * from './prices.js'
export * from './simulate.js'
