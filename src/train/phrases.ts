/** What is said of the data of a run, and of runs that cannot go on, in English. */
import { failurePhrases, type ProblemPhrases, phrasing } from '../base/index.js'

export const dataPhrases = {
  'data/file/unreadable': ['cannot read {file}: {why}'],
  'data/file/missing': ['cannot read {file}: no such file'],
  'data/file/tokenizer': ['{file} {why}'],
  'data/documents/unknown': ['{tokenizer} names no token that ends a text', 'give the id of the token'],
  'data/short/train': ['{source} has {tokens} tokens, but a sequence needs seq {seq} + 1 = {needed} to train on'],
  'data/short/sequence': ['{source} has at most {tokens} tokens, but a sequence of seq {seq}{held} takes {needed}'],
  'data/short/batch': [
    '{source} has at most {tokens} tokens, but a step of globalBatch {globalBatch} x seq {seq}{held} takes {needed}: sequences repeat within a step',
  ],
  '.held-out': [' with {percent} % held out'],
  'data/labels/answers': ['no answer of {source} fits into a sequence of {seq} tokens'],
  'data/size': ['{source} holds more than {most} of text'],
  'data/empty': ['there is no text file in {source}'],
  'data/binary': ['{source} is not text', 'try tokenizer bytes'],
} as const satisfies ProblemPhrases

const noPlan = 'no plan with at most {ranks} ranks and {globalBatch} sequences a step fits'
const moreRanks = 'resume with more ranks, or with a plan of your own'

export const runPhrases = {
  ...failurePhrases,
  'engine/failed/when': ['{when}: {what}'],
  'run/given-up': [
    '{failures} failures without a step of progress; the last: {failure}',
    'read the flight records: what fails each time at the same place is no accident',
  ],
  'run/ranks': [noPlan, moreRanks],
  'run/ranks/because': [`${noPlan}: {why}`, moreRanks],
} as const satisfies ProblemPhrases

export const { refused: runRefused } = phrasing(runPhrases)
export const { refused, advised, clause } = phrasing(dataPhrases)
