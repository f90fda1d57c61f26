/** What else to try: asked when the exact numbers are there, which need none of it. */
export { advice } from './plan/advice.js'
