/** What is said of schedules, in English. */
import { english, namePhrases, type ProblemPhrases, phrasing, type Spoken, speak } from '../base/index.js'

export const schedulePhrases = {
  ...namePhrases,
  'schedule/count': ['{count} is not a whole number of at least 1'],
  'schedule/size/cells': [
    'pp {ranks} x chunks {chunks} x microbatches {microbatches} = {cells}, but at most {most} can be scheduled',
  ],
  'schedule/size/file': ['more than {most} cells'],
  'schedule/shape': ['{name}: chunks = {chunks}, but this schedule has chunks = {usual}'],
  'schedule/unknown': ["there is no schedule '{name}'", '{instead}'],

  'schedule/auto/many': ['pp {ranks} x microbatches {microbatches} > {most}: too many to search for an order'],
  'schedule/auto/costs': ['{costs} costs for {ranks} ranks: give one for all, or one for each'],
  'schedule/auto/cost': ['every cost must be a finite number of at least 0'],
  'schedule/auto/held': ['what a microbatch holds must be finite and at least 0, not I {I}, W {W}'],
  'schedule/auto/limit': ['limit {limit} < {held}, which one microbatch holds'],

  'schedule/cell': ['row {row}, cell {cell}: {what}'],
  '.two-tasks': ["'{text}' does not hold two tasks"],
  '.no-action': ["'{text}' is not an action such as 0F1, 0I1, 0W1 or 0B1"],
  '.too-high': ["'{text}': stages and microbatches end below {most}"],

  'schedule/stall': ['{what}'],
  '.gradient': ['the input gradient of stage {stage} microbatch {microbatch}'],
  '.later': ['which comes later in its own row'],
  '.on-rank': ['on rank {rank}'],

  'schedule/invalid': ['{what}'],
  '.more': ['and {more} more'],
  '.stalled': ['rank {rank} is deadlocked at {action}: it needs {what}, {where}'],
  '.outside': ['rank {rank}: {action} is outside of {stages} stages x {microbatches} microbatches'],
  '.idle-rank': ['rank {rank} has nothing to do'],
  '.no-pair': ['rank {rank}: {action} must pair a forward with a whole backward'],
  '.no-ranks': ['there are no ranks'],
  '.not-so-many': ['{tasks} tasks cannot be {stages} stages x {microbatches} microbatches'],
  '.cell': ['stage {stage} microbatch {microbatch}'],
  '.nowhere': ['{cell} is nowhere'],
  '.forward': ['{cell} goes forward {times}'],
  '.back': ['{cell} goes back {times} ({B} B + {I} I)'],
  '.unequal': ['{cell} has {I} I but {W} W'],
  '.spread-out': ['{cell} is spread over several ranks'],
  '.back-first': ['{cell} goes back before it goes forward on rank {rank}'],
  '.weights-first': ['{cell} has W before I on rank {rank}'],
  '.never': ['never'],
  '.once': ['once'],
  '.times': ['{times} times'],
} as const satisfies ProblemPhrases

export const { refused, clause } = phrasing(schedulePhrases)

export const saidInEnglish = (what: Spoken): string => speak(what, english(schedulePhrases))[0]
