/** The thread in which files of other people are run. */
import { platform } from '../platform/index.js'
import { openTheirs, type Question, type Theirs } from './theirs.js'

// What main sends is what theirs.ts opens and asks it with.
platform.answer(async opening => {
  const answer = await openTheirs(opening as Theirs)
  return question => answer(question as Question)
})
