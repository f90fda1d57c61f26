/** What the plan's page asks after the numbers: the words for them. */
export { why } from './plan/why.js'
