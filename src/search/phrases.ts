/** What is said of constraints and of searches that list nothing, in English. */
import { namePhrases, type ProblemPhrases, phrasing } from '../base/index.js'

export const searchPhrases = {
  ...namePhrases,
  'constraint/unknown/shape': ['no comparison of a field and a value', "write it like 'tp<=8'"],
  'constraint/unknown/field': ['there is no field {name}', '{instead}'],
  'constraint/unknown/integer': ['{value} is not an integer'],
  'constraint/unknown/rows': [
    '{value} is no room for rows: a number of at least 1, or worst',
    "write it like 'rows<=1.5'",
  ],
  'constraint/unknown/limit': ['memory can only be limited', "write it like 'memory<=70GiB'"],
  'constraint/unknown/memory': ['{value} is not an amount of memory', 'write it like 70GiB'],
  'constraint/unknown/relation': ['{field} can only be = or !='],
  'constraint/unknown/word': ['there is no {field} {word}', '{instead}'],
  'plan/model': ['an mlp has no attention: it has no price', 'choose a gpt or a llama'],
  'plan/memory/listed': [
    'all {plans} plans that fit by price are too large once compiled',
    "try --constraint 'memory<={limit}GiB'",
  ],
  'plan/size/listed': [
    'all {plans} plans that fit call more than {most} layers in a step: they are not compiled',
    "try --constraint 'microbatches<={limit}', or a smaller batch",
  ],
  'plan/failed': ['no plan could be compiled: {why}'],
  '.none-found': ['none was found'],
} as const satisfies ProblemPhrases

export const { refused, clause } = phrasing(searchPhrases)
