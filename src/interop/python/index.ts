export { type Followed, followFunction, functionsOf } from './follow.js'
