/** What the exercises ask: where each starts, a solution, and what the core makes of what the reader wrote. */
export { communication, judgeRanking } from './communication.js'
export { hybrid, judgeHybrid } from './hybrid.js'
export { bubble, judgeRows, pipelineBackward } from './rows.js'
export { judgeTensorBackward, tensorBackward } from './tensor-backward.js'

/** What stands in the editor at first, and what could stand there at the end: both come out of the compiler. */
export interface Texts {
  readonly start: string
  readonly solution: string
}
