export { type Followed, type Following, followFunction, functionsOf } from './follow.js'
