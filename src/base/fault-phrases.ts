/** Messages about faults to inject into a run, in English. */
import { type ProblemPhrases, phrasing } from './phrasing.js'
import { schemaPhrases } from './schema-phrases.js'

export const faultPhrases = {
  '.did-you-mean': schemaPhrases['.did-you-mean'],
  '.one-of': schemaPhrases['.one-of'],
  'run/fault/kind': ['unknown fault `{kind}`', '{instead}'],
  'run/fault/key': ['unknown key `{key}`', '{instead}'],
  'run/fault/twice': ['{key} is set twice', 'set it once'],
  'run/fault/missing': ['{key} is missing', 'write it like {example}'],
  'run/fault/empty': ['{given} has no value', 'write {key}=...'],
  'run/fault/whole': ['{key}={value} is not an integer'],
  'run/fault/whole-from': ['{key}={value} is not an integer of at least {least}'],
  'run/fault/whole-between': ['{key}={value} is not an integer from {least} to {most}'],
  'run/fault/number': ['{key}={value} is not a number'],
  'run/fault/number-from': ['{key}={value} is not a number of at least {least}'],
  'run/fault/rank': ['there is no rank {rank}: the plan has {ranks}', 'use 0 to {last}'],
  'run/fault/parameter': ['there is no parameter {parameter}', '{instead}'],
  'run/fault/interpreter': [
    'reference kernels run all ranks in one thread, where a single rank cannot fail',
    'use other kernels',
  ],
  'run/fault/many': ['a rank can have at most {most} faults, but this one has {faults}'],
  'run/fault/command': ['rank {rank} has {commands} commands per step', 'use at=0 to {last}'],
  'run/fault/no-command': ['rank {rank} has no suitable command from {from} on', 'use a smaller at'],

  '.happens': ['in step {step}: {fault}'],
  '.cannot-happen': ['{fault} cannot happen: {why}'],
} as const satisfies ProblemPhrases

export const { refused: faultRefused, clause: faultClause } = phrasing(faultPhrases)
