export type { Value } from './expression.js'
export { type Followed, type Following, followFunction } from './follow.js'
export { functionsOf } from './functions.js'
export { literals } from './literals.js'
