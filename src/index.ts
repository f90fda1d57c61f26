/** The public surface: what a program, a page or a notebook may import from `lockstep`. */
export { type Problem, ProblemsError, showProblem } from './base/index.js'
export { type Cluster, clusterOf, deviceNames, parseCluster } from './cluster/index.js'
export {
  compile,
  compileEvaluation,
  compileJob,
  memoryProblems,
  scheduleOf,
  serialJob,
  tallyOf,
} from './compile/index.js'
export {
  batchAt,
  batchesInOrder,
  bpeTokenizer,
  byteTokenizer,
  type Dataset,
  datasetOfIds,
  encodeAll,
  printTokenizer,
  readTokenizer,
  type Samples,
  syntheticDataset,
  type Tokenizer,
  trainMerges,
} from './data/index.js'
export {
  boot,
  compare,
  runSerial,
  startTrainer,
  syntheticData,
  type Trainer,
  worstOf,
} from './engine/index.js'
export { calibrated, type Era, type Estimate, eras, estimate, placedOf, splitOf, totalBytes } from './estimate/index.js'
export { inputsOf } from './geometry/index.js'
export { type Program, parse, print, printRank, type Violation, verify } from './ir/index.js'
export { buildModel, defineModel, type Model, ModelConfig, normal, ones, presets, zeros } from './model/index.js'
export { check, Job, lrAt, Plan, parseJob, rehearsalOf, rehearsalSizes, Training } from './plan/index.js'
export {
  communicate,
  draw,
  makeSchedule,
  parseSchedule,
  printSchedule,
  type Schedule,
  timing,
} from './schedule/index.js'
export {
  type Answer,
  type Asked,
  type Found,
  findPlans,
  jobOf,
  neighboursOf,
  type PlannerOptions,
  type Priced,
  priceOf,
  type RankedPlan,
  type Request,
  ratesOfPlan,
  readingOf,
  requestOf,
  search,
} from './search/index.js'
export { clusterPrices, type Simulation, scaledPrices, simulate } from './simulate/index.js'
export { printChrome, type Span, sharesOf } from './trace/index.js'
