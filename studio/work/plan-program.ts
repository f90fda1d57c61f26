/** What the plan's page asks of the program: exact numbers, and what it looks like. */
export { compare } from './plan/compare.js'
export { exact } from './plan/exact.js'
export { memoryOver, timeline, topology } from './plan/views.js'
