/**
 * What claims are settled with: functions of the public index, as one value. A claim takes them from here and nowhere else, so
 * a test can hand in others and see it fall.
 */
import {
  boot,
  check,
  clusterOf,
  clusterPrices,
  compare,
  compileJob,
  flopDefinitions,
  goodputOf,
  inputsOf,
  kernelLoads,
  makeSchedule,
  parseJob,
  quote,
  rankGroups,
  rankTraffic,
  ratesOf,
  ridgeOf,
  runSerial,
  serialJob,
  shapeOf,
  simulate,
  sizesOf,
  syntheticData,
  tallyOf,
  timing,
  verify,
  workOfJob,
  worstOf,
} from 'lockstep'

export const core = {
  ...{ check, parseJob, sizesOf, rankGroups, shapeOf, flopDefinitions },
  ...{ makeSchedule, timing },
  ...{ compileJob, serialJob, tallyOf, verify },
  ...{ boot, compare, runSerial, worstOf, inputsOf, syntheticData },
  ...{ clusterOf, clusterPrices, quote, simulate, rankTraffic, kernelLoads, ridgeOf, goodputOf, ratesOf, workOfJob },
}

export type Core = typeof core
