/** What the plan's page asks of the program: exact numbers, and what else to try. */
export { advice } from './plan/advice.js'
export { exact } from './plan/exact.js'
