/** What is said of the data of a run, of runs that cannot go on, and of what they keep, in English. */
import { failurePhrases, type ProblemPhrases, phrasing } from '../base/index.js'

export const dataPhrases = {
  'data/file/unreadable': ['cannot read {file}: {why}'],
  'data/file/outside': ['cannot read {file}: it lies outside the folder that the studio was started in'],
  'data/file/missing': ['cannot read {file}: no such file'],
  'data/file/tokenizer': ['{file} {why}'],
  'data/documents/unknown': ['{tokenizer} names no token that ends a text', 'give the id of the token'],
  'data/short/train': ['{source} has {tokens} tokens, but a sequence needs seq {seq} + 1 = {needed} to train on'],
  'data/short/sequence': ['{source} has at most {tokens} tokens, but a sequence of seq {seq}{held} takes {needed}'],
  'data/short/batch': [
    '{source} has at most {tokens} tokens, but a step of globalBatch {globalBatch} x seq {seq}{held} takes {needed}: sequences repeat within a step',
  ],
  'data/short/choices': [
    '{file} has choices of {recorded} steps, a run takes {steps}',
    'record as many, or train --steps {recorded}',
  ],
  '.held-out': [' with {percent} % held out'],
  'data/labels/answers': ['no answer of {source} fits into a sequence of {seq} tokens'],
  'data/size': ['{source} holds more than {most} of text'],
  'data/empty': ['there is no text file in {source}'],
  'data/binary': ['{source} is not text', 'try tokenizer bytes'],
} as const satisfies ProblemPhrases

const remedy = 'try a smaller lr, a warm-up, or clip'
const leftAs = '{why}; parameters and optimizer are as step {left} left them'
const moreSkips = `${remedy}, look at the data of these steps, or allow more` as const
const ofIgnorance = 'that of a model that has learned nothing {ignorant}'
const resumeOr = 'resume with --resume {newest}, or name another folder with --save'

const divergencePhrases = {
  'training/loss': ['the loss of step {step} is {loss}', remedy],
  'training/norm/step': [`step {step} was skipped: ${leftAs}`, moreSkips],
  'training/norm/steps': [`steps {first} to {step} were skipped: ${leftAs}`, moreSkips],
  '.skipped/spike': ['gradient norm {norm} is a spike: by the steps before it should be below {limit}'],
  '.skipped/above': ['gradient norm {norm} is not below {limit}'],
  '.skipped/not-finite': ['gradient norm is not finite'],
  '.skipped/scale': ['gradient norm is not finite, scale {before} -> {now}'],
  'training/scale': [
    'the gradients of step {step} are not finite, and the loss scale is at its minimum, {min}',
    `they overflow by themselves: ${remedy}, or bf16, which has the range of f32 (what was trained in bf16 often does not fit f16)`,
  ],
  'training/diverged/step': [`the run diverges: the loss of step {step} is {loss}, ${ofIgnorance}`, remedy],
  'training/diverged/mean': [
    `the run diverges: the mean loss of the last {steps} steps is {loss}, ${ofIgnorance}`,
    remedy,
  ],
  'training/diverged/last': [`the run diverges: the last loss is {loss}, ${ofIgnorance}`, remedy],
} as const satisfies ProblemPhrases

const savingPhrases = {
  'checkpoint/values': ['{path} is not written: {what}', 'resume an earlier one with a smaller lr, or with clip'],
  'checkpoint/exists': [
    '{folder} holds checkpoints of another run, the last of them {last}; this run would start at step 1',
    resumeOr,
  ],
  'checkpoint/exists/later': [
    '{folder} holds {last} of another run, which is later than step {behind} that this run resumes from',
    resumeOr,
  ],
  'checkpoint/locked/removed': ['{path} was removed during the run'],
  'checkpoint/locked': ['{folder} belongs to {holder}, which is running', 'name another folder with --save'],
  'checkpoint/locked/elsewhere': [
    '{folder} belongs to {holder}',
    'name another folder with --save, or delete {lock} if that run has ended',
  ],
  '.holder': ['run {run} (process {pid} on {host}, since {since})'],
} as const satisfies ProblemPhrases

const noPlan = 'no plan with at most {ranks} ranks and {globalBatch} sequences a step fits'
const moreRanks = 'resume with more ranks, or with a plan of your own'

export const runPhrases = {
  ...failurePhrases,
  ...divergencePhrases,
  ...savingPhrases,
  'engine/failed/when': ['{when}: {what}'],
  'run/replicas': [
    'replicas differ since step {step}: checkpoints after step {equal} are suspect',
    'resume from the checkpoint of step {equal} or an earlier one',
  ],
  'run/replicas/start': [
    'replicas differ since step {step}: every checkpoint of this run is suspect',
    'start it again',
  ],
  'run/given-up': [
    '{failures} failures without a step of progress; the last: {failure}',
    'read the flight records: what fails each time at the same place is no accident',
  ],
  'run/ranks': [noPlan, moreRanks],
  'run/ranks/because': [`${noPlan}: {why}`, moreRanks],
} as const satisfies ProblemPhrases

export const { refused: runRefused, advised: runAdvised, clause: runClause } = phrasing(runPhrases)
export const { refused, advised, clause } = phrasing(dataPhrases)
