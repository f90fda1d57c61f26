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
  findPlans,
  importConfig,
  inputsOf,
  makeSchedule,
  parse,
  parseJob,
  print,
  quote,
  requestOf,
  runSerial,
  serialJob,
  simulate,
  sizesOf,
  syntheticData,
  tallyOf,
  timing,
  verify,
  worstOf,
} from 'lockstep'

export const core = {
  ...{ check, parseJob, importConfig, sizesOf },
  ...{ makeSchedule, timing },
  ...{ compileJob, serialJob, tallyOf, print, parse, verify },
  ...{ boot, compare, runSerial, worstOf, inputsOf, syntheticData },
  ...{ clusterOf, clusterPrices, quote, simulate },
  ...{ requestOf, findPlans },
}

export type Core = typeof core
