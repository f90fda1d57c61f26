export * from './constraint.js'
export * from './request.js'
export * from './search.js'
export * from './space.js'
