/** Messages about constraints and searches without a result, in English. */
import { namePhrases, type ProblemPhrases, phrasing } from '../base/index.js'

export const searchPhrases = {
  ...namePhrases,
  'constraint/unknown/shape': ['not a comparison of a field with a value', "write it like 'tp<=8'"],
  'constraint/unknown/field': ['unknown field {name}', '{instead}'],
  'constraint/unknown/integer': ['{value} is not an integer'],
  'constraint/unknown/rows': [
    '{value} is not an expert capacity: a number of at least 1, or worst',
    "write it like 'expertCapacity<=1.5'",
  ],
  'constraint/unknown/limit': ['memory takes only an upper limit', "write it like 'memory<=70GiB'"],
  'constraint/unknown/memory': ['{value} is not a memory size', 'write it like 70GiB'],
  'constraint/unknown/relation': ['{field} can only be compared with = or !='],
  'constraint/unknown/word': ['unknown {field} {word}', '{instead}'],
  'plan/model': ['there is no cost model for an mlp, which has no attention', 'choose a gpt or a llama'],
  'plan/memory/listed': [
    'all {plans} plans that fit by estimate are too large once compiled',
    "try --constraint 'memory<={limit}GiB'",
  ],
  'plan/size/listed': [
    'all {plans} plans that fit have more than {most} layer calls per step: they were not compiled',
    "try --constraint 'microbatches<={limit}', or a smaller batch",
  ],
  'plan/failed': ['no plan could be compiled: {why}'],
  '.none-found': ['none was found'],
} as const satisfies ProblemPhrases

export const { refused, clause } = phrasing(searchPhrases)
