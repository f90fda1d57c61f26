/** What is said of faults that are to happen in a run, in English. */
import { type ProblemPhrases, phrasing } from './phrasing.js'
import { schemaPhrases } from './schema-phrases.js'

export const faultPhrases = {
  '.did-you-mean': schemaPhrases['.did-you-mean'],
  '.one-of': schemaPhrases['.one-of'],
  'run/fault/kind': ['there is no fault `{kind}`', '{instead}'],
  'run/fault/key': ['it has no key `{key}`', '{instead}'],
  'run/fault/twice': ['{key} is given twice', 'give it once'],
  'run/fault/missing': ['{key} is missing', 'write it like {example}'],
  'run/fault/empty': ['{given} has no value', 'write {key}=...'],
  'run/fault/whole': ['{key}={value} is not a whole number'],
  'run/fault/whole-from': ['{key}={value} is not a whole number from {least} up'],
  'run/fault/whole-between': ['{key}={value} is not a whole number from {least} to {most}'],
  'run/fault/number': ['{key}={value} is not a number'],
  'run/fault/number-from': ['{key}={value} is not a number from {least} up'],
  'run/fault/rank': ['there is no rank {rank}: the plan has {ranks}', 'take 0 to {last}'],
  'run/fault/parameter': ['there is no parameter {parameter}', '{instead}'],
  'run/fault/interpreter': [
    'reference kernels run all ranks in one thread, which has no faults of single ranks',
    'take other kernels',
  ],
  'run/fault/many': ['a rank can have {most} faults, this one has {faults}'],
  'run/fault/command': ['rank {rank} has {commands} commands a step', 'take at=0 to {last}'],
  'run/fault/no-command': ['no command of rank {rank} from {from} on will do', 'take a smaller at'],

  '.happens': ['in step {step}: {fault}'],
  '.cannot-happen': ['{fault} cannot happen: {why}'],
} as const satisfies ProblemPhrases

export const { refused: faultRefused, clause: faultClause } = phrasing(faultPhrases)
