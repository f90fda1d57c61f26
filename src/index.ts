/**
 * The public surface: what a program, a page or a notebook may import from `lockstep`, in the order in which one reads it.
 * docs/api.md walks through it. Engines and collectives of threads are `lockstep/engine`, files of Node `lockstep/node`.
 */

// 1. What is wrong, as data.
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

// 2. A job: a model, how it is trained, and the plan that lays it on ranks.
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

// 3. Schedules of a pipeline.
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

// 4. The program of a job: compiled, printed, parsed, as PyTorch.
export { coordinatesOf, indexAlong, sizeOfAll, worldOf } from './base/index.js'
export {
  compile,
  compileEvaluation,
  compileJob,
  memoryProblems,
  memoryWhy,
  scheduleOf,
  serialJob,
  tallyOf,
} from './compile/index.js'
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

// 5. Proved: the laws, and a run beside one rank.
export {
  type CompiledJob,
  isFine,
  type ProveOptions,
  prove,
  type Rehearsal,
  rehearse,
  type Verdict,
} from './prove/index.js'

// 6. Data and training.
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

// What is found in a run, as data.
export { type EventPhrases, type HealthEvent, watchRun } from './health/index.js'

// 7. What runs a program, step by step.
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

// 8. Clusters, and a step simulated on one.
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
  type Part,
  type Parts,
  type Prices,
  partNames,
  partTitles,
  type RankRole,
  type Rates,
  type Run,
  rankTraffic,
  ratesOf,
  ridgeOf,
  runOf,
  type Simulation,
  scaledPrices,
  simulate,
  simulating,
  type StepWork,
  type Traffic,
} from './simulate/index.js'
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

// 9. Estimates in closed form, and the planner.
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

// What was found, said: a code and its values, and the English of each.
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

// 10. This machine measured, and a step simulated beside the same step measured.
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

// Runs that others have published, beside ours
export { type Case, cases, compareCase, type Row, rowsOf, type Timed, type Times } from './validate/index.js'

// Other frameworks' configurations
export { type Exported, exportJob, type Given, type Imported, importConfig } from './interop/index.js'
