/** The public surface: what a program, a page or a notebook may import from `lockstep`. */
export { type Problem, ProblemsError, showProblem } from './base/index.js'
export {
  communicate,
  compile,
  compileJob,
  draw,
  makeSchedule,
  memoryProblems,
  parseSchedule,
  printSchedule,
  type Schedule,
  scheduleOf,
  serialJob,
  timing,
} from './compile/index.js'
export { boot, compare, inputsOf, runSerial, syntheticData, worstOf } from './engine/index.js'
export { type Program, parse, print, printRank, type Violation, verify } from './ir/index.js'
export { buildModel, defineModel, type Model, ModelConfig, normal, ones, presets, zeros } from './model/index.js'
export { check, Job, Plan, parseJob, Training } from './plan/index.js'
