export * from './inputs.js'
export * from './members.js'
export * from './tensor.js'
export * from './whole.js'
