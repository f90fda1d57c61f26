/** All that is said of problems that pages show, family by family: a page says the same in a language of its own. */
import type { faultPhrases } from './base/fault-phrases.js'
import type { writingPhrases } from './base/files.js'
import type { clusterPhrases } from './cluster/phrases.js'
import type { enginePhrases } from './engine/native/run/phrases.js'
import type { generatePhrases } from './generate/phrases.js'
import type { PlanPhrases } from './plan/phrases.js'
import type { schedulePhrases } from './schedule/phrases.js'
import type { searchPhrases } from './search/phrases.js'
import type { dataPhrases, runPhrases } from './train/phrases.js'

/** The message templates of all diagnostics a page may show. A translation is a table of this type. */
export type ProblemWords = PlanPhrases &
  typeof clusterPhrases &
  typeof dataPhrases &
  typeof enginePhrases &
  typeof faultPhrases &
  typeof runPhrases &
  typeof schedulePhrases &
  typeof searchPhrases &
  typeof writingPhrases &
  typeof generatePhrases
