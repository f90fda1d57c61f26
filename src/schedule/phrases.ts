/** Messages about schedules, in English. */
import { english, namePhrases, type ProblemPhrases, phrasing, type Spoken, speak } from '../base/index.js'

export const schedulePhrases = {
  ...namePhrases,
  'schedule/count': ['{count} is not an integer of at least 1'],
  'schedule/size/cells': [
    'pp {ranks} x chunks {chunks} x microbatches {microbatches} = {cells} tasks, but at most {most} can be scheduled',
  ],
  'schedule/size/file': ['the file has more than {most} cells'],
  'schedule/shape': ['{name}: chunks = {chunks}, but this schedule needs chunks = {usual}'],
  'schedule/unknown': ["unknown schedule '{name}'", '{instead}'],

  'schedule/auto/many': ['pp {ranks} x microbatches {microbatches} > {most}: too many to search for an order'],
  'schedule/auto/costs': ['{costs} costs for {ranks} ranks: pass one for all ranks, or one per rank'],
  'schedule/auto/cost': ['every cost must be a finite number of at least 0'],
  'schedule/auto/held': ['the memory of a microbatch must be finite and at least 0, got I {I}, W {W}'],
  'schedule/auto/limit': ['limit {limit} < {held}, the memory of one microbatch'],

  'schedule/cell': ['row {row}, cell {cell}: {what}'],
  '.two-tasks': ["'{text}' does not hold two tasks"],
  '.no-action': ["'{text}' is not an action such as 0F1, 0I1, 0W1 or 0B1"],
  '.too-high': ["'{text}': stage and microbatch numbers must be below {most}"],

  'schedule/stall': ['{what}'],
  '.gradient': ['the input gradient of stage {stage} microbatch {microbatch}'],
  '.later': ['which comes later in the same row'],
  '.on-rank': ['on rank {rank}'],

  'schedule/invalid': ['{what}'],
  '.more': ['and {more} more'],
  '.stalled': ['rank {rank} is deadlocked at {action}: it waits for {what}, {where}'],
  '.outside': ['rank {rank}: {action} is out of range for {stages} stages x {microbatches} microbatches'],
  '.idle-rank': ['rank {rank} has no tasks'],
  '.no-pair': ['rank {rank}: {action} must pair a forward with a full backward'],
  '.no-ranks': ['there are no ranks'],
  '.not-so-many': ['{tasks} tasks do not match {stages} stages x {microbatches} microbatches'],
  '.cell': ['stage {stage} microbatch {microbatch}'],
  '.nowhere': ['{cell} is missing'],
  '.forward': ['{cell} has its forward {times}'],
  '.back': ['{cell} has its backward {times} ({B} B + {I} I)'],
  '.unequal': ['{cell} has {I} I but {W} W'],
  '.spread-out': ['{cell} is split over several ranks'],
  '.back-first': ['{cell} has its backward before its forward on rank {rank}'],
  '.weights-first': ['{cell} has W before I on rank {rank}'],
  '.never': ['0 times'],
  '.once': ['once'],
  '.times': ['{times} times'],
} as const satisfies ProblemPhrases

export const { refused, clause } = phrasing(schedulePhrases)

export const saidInEnglish = (what: Spoken): string => speak(what, english(schedulePhrases))[0]
