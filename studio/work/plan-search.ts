/** Searching all plans: a long question of its own, so that controls answer meanwhile. */
export { search } from './plan/search.js'
