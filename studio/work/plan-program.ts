/** What the plan's page asks of the program: exact numbers, what it looks like, and what else to try. */
export { advice } from './plan/advice.js'
export { compare } from './plan/compare.js'
export { exact } from './plan/exact.js'
export { memoryOver, timeline, topology } from './plan/views.js'
