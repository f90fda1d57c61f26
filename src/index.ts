/** The public surface: what a program, a page or a notebook may import from `lockstep`. */
export { type Problem, ProblemsError, showProblem } from './base/index.js'
export { compile, compileJob, makeSchedule, memoryProblems, type Schedule, scheduleOf, serialJob } from './compile/index.js'
export { boot, compare, runSerial, syntheticData, worstOf } from './engine/index.js'
export { parse, type Program, print, printRank, verify, type Violation } from './ir/index.js'
export { buildModel, defineModel, type Model, ModelConfig, normal, ones, presets, zeros } from './model/index.js'
export { check, Job, Plan, parseJob, Training } from './plan/index.js'
