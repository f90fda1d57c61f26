/**
 * The public API: what an application, a page or a notebook imports from `lockstep`, by topic, in the order of docs/api.md.
 * The topics are the sections of docs/reference/lockstep.md. Threads are in `lockstep/engine`, files of Node in `lockstep/node`.
 */

// 1. Problems
export {
  asPart,
  type Fault,
  FaultBook,
  type Files,
  type Gap,
  finish,
  type MeshAxis,
  memoryFiles,
  type DescriptionPhrases,
  type Phrases,
  planPrecisions,
  type Problem,
  parseFaults,
  phrasing,
  type ProblemCode,
  ProblemsError,
  problemCodes,
  type Said,
  type Spoken,
  showProblem,
  showWhole,
  type Translated,
  type Wording,
  type Work,
} from './base/index.js'
export type { ProblemWords } from './problem-words.js'

// 2. Jobs
export {
  buildModel,
  defineModel,
  type Model,
  ModelConfig,
  type ModelSizes,
  normal,
  ones,
  partsOfModel,
  presets,
  sizesOf,
  zeros,
} from './model/index.js'
export {
  check,
  Job,
  jobFields,
  jobSchema,
  layersPerStage,
  lrAt,
  Plan,
  parseJob,
  type RankGroups,
  rankGroups,
  recomputePolicies,
  fp8Recipes,
  attentionKinds,
  rehearsalOf,
  rehearsalSizes,
  Training,
  worldOfPlan,
} from './plan/index.js'

// 3. Schedules
export {
  autoSchedule,
  communicate,
  draw,
  makeSchedule,
  parseSchedule,
  printSchedule,
  type Schedule,
  scheduleNames,
  schedules,
  timing,
} from './schedule/index.js'

// 4. Programs
export { coordinatesOf, indexAlong, sizeOfAll, worldOf } from './base/index.js'
export {
  compileEvaluation,
  memoryProblems,
  memoryWhy,
  type Pass,
  type PassResults,
  passes,
  scheduleOf,
  serialJob,
  tallyOf,
  type Watch,
} from './compile/index.js'
export {
  type CompileOptions,
  compileModel as compile,
  compileVerified as compileJob,
  type ModelToCompile,
} from './prove/index.js'
export { emit, emitProgram } from './emit/index.js'
export {
  kinds,
  type LawPhrases,
  type LiveBytes,
  liveBytes,
  type Program,
  parse,
  print,
  printRank,
  SerialReplay,
  type TextPhrases,
  type Violation,
  verify,
} from './ir/index.js'

// 5. Verification
export {
  type CompiledJob,
  isFine,
  type ProveOptions,
  prove,
  type Rehearsal,
  rehearse,
  type Verdict,
} from './prove/index.js'

// 6. Training
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
export { archiveOf } from './checkpoint/index.js'
export {
  type Beginning,
  beginningOf,
  type CheckpointExport,
  type CheckpointFolder,
  exportCheckpoint,
  injectNow,
  type KeepOptions,
  type KeptSession,
  keepGoing,
  type OpenedData,
  openCheckpoints,
  openData,
  type Peaks,
  peaksOf,
  type RunNote,
  type Session,
  type SessionOptions,
  type StepRecord,
  startSession,
  train,
} from './train/index.js'
export {
  type AdapterFolder,
  besideWeights,
  openAdapters,
  openWeights,
  type WeightFolder,
  type WeightSource,
  weightSource,
} from './weights/index.js'
export {
  createDecoder,
  type Decoder,
  type Evaluation,
  evaluate,
  type GenerateOptions,
  generate,
  openDecoder,
  openTrained,
  type Sampler,
  type Sampling,
  samplerOf,
  type TrainedModel,
  textStream,
  tokenizerOf,
} from './generate/index.js'

// Health of a run
export { type EventPhrases, type HealthEvent, watchRun } from './health/index.js'

// 7. Engines
export {
  boot,
  type CollectiveCall,
  compare,
  type Runner,
  runCollective,
  runCollectives,
  runSerial,
  type StepData,
  type StepResult,
  startTrainer,
  syntheticData,
  type Trainer,
  worstOf,
} from './engine/index.js'
export { inputsOf } from './geometry/index.js'
export {
  type CollectiveSum,
  collectivesOf,
  labelsOf,
  lanes,
  type MemoryTrack,
  memoryTrack,
  nameOf,
  noLink,
  printChrome,
  type Span,
  type SpanColumns,
  type SpanKind,
  type SpanLabels,
  sharesOf,
  spanKinds,
} from './trace/index.js'

// 8. Simulations
export { type Cluster, clusterFields, clusterOf, clusterSchema, deviceNames, parseCluster } from './cluster/index.js'
export { flopsOf, type Kernel, priceCollective, priceKernel, type Quote, quote, trafficOf } from './cost/index.js'
export {
  clusterPrices,
  type Failures,
  type Goodput,
  goodputOf,
  type KernelLoad,
  kernelLoads,
  type LinkTraffic,
  linkTraffic,
  type Prices,
  type RankRole,
  rankTraffic,
  ridgeOf,
  type Simulation,
  scaledPrices,
  simulate,
  simulating,
  type Traffic,
} from './simulate/index.js'
export {
  type Bubble,
  bubbleOf,
  exposedOf,
  type LinkUse,
  linkUseOf,
  headroomOf,
  type Part,
  type Parts,
  partNames,
  partTitles,
  type Quantity,
  quantities,
  type Rates,
  type Run,
  ratesOf,
  runOf,
  type StepWork,
} from './metrics/index.js'
export {
  type Box,
  type Boxes,
  boxesOf,
  boxKinds,
  inkOn,
  laneFill,
  palette,
  shadeOf,
  type Theme,
} from './report/index.js'

// 9. Plans
export {
  calibrated,
  type FrameworkName,
  type Estimate,
  EstimateBook,
  frameworks,
  estimate,
  flopDefinitions,
  placedOf,
  shapeOf,
  splitOf,
  totalBytes,
} from './estimate/index.js'
export {
  type Answer,
  asSimulated,
  capacityOf,
  draftJob,
  differencesOf,
  type PlanQuery,
  type Explanation,
  explain,
  explaining,
  type Found,
  findingPlans,
  findPlans,
  type Forecast,
  forecastOf,
  workOfJob,
  type Impossible,
  jobOf,
  memoryTimes,
  type Neighbour,
  neighboursOf,
  networkTimes,
  type PlannerOptions,
  PlanSample,
  planOf,
  type Priced,
  priceOf,
  type RankedPlan,
  type Request,
  ratesOfPlan,
  readingOf,
  reasonsFor,
  requestOf,
  requestOfJob,
  type Scaling,
  type Sensitivity,
  scale,
  scaling,
  search,
  searching,
  sensitivityOf,
  type Why,
  whyImpossible,
} from './search/index.js'

// Messages of the planner
export {
  bestSentence,
  differenceSentence,
  fitSentence,
  limitSentence,
  noteSentences,
  partWords,
  type Remark,
  reasonSentence,
  type Sentence,
  type SentenceCode,
  type SentenceValues,
  sentences,
  showSentence,
  speedSentence,
  verdictSentence,
} from './search/index.js'

// 10. This machine
export {
  type Calibration,
  calibration,
  compareSteps,
  type Host,
  inTurns,
  type RankSpans,
  type SeenStep,
  type StepComparison,
  type StepView,
  type StepViewer,
  stepViewer,
  type TimedRun,
  timedRun,
} from './calibrate/index.js'

// Published runs
export { type Case, cases, compareCase, type Row, rowsOf, type Timed, type Times } from './validate/index.js'

// Other frameworks' configurations
export { type Exported, exportJob, type Given, type Imported, importConfig } from './interop/index.js'
