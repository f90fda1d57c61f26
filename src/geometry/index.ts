export * from './tensor.js'
export * from './whole.js'
