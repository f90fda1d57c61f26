export * from './kernel.js'
export * from './meeting.js'
export * from './price.js'
export * from './route.js'
