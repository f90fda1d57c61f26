/** Messages about the data of a run, runs that cannot continue, and checkpoints, in English. */
import { failurePhrases, type ProblemPhrases, phrasing } from '../base/index.js'

export const dataPhrases = {
  'data/file/unreadable': ['cannot read {file}: {why}'],
  'data/file/outside': ['cannot read {file}: it is outside the folder that the studio was started in'],
  'data/file/missing': ['cannot read {file}: no such file'],
  'data/file/tokenizer': ['{file} {why}'],
  'data/documents/unknown': ['{tokenizer} defines no EOS token', 'set eod to the token id'],
  'data/short/train': ['{source} has {tokens} tokens, but one training sequence needs seq {seq} + 1 = {needed}'],
  'data/short/sequence': ['{source} has at most {tokens} tokens, but one sequence of seq {seq}{held} needs {needed}'],
  'data/short/batch': [
    '{source} has at most {tokens} tokens, but one step of globalBatch {globalBatch} x seq {seq}{held} needs {needed}: sequences repeat within a step',
  ],
  'data/short/choices': [
    '{file} has routing decisions for {recorded} steps, but the run has {steps}',
    'record {steps} steps, or train --steps {recorded}',
  ],
  '.held-out': [' with {percent} % for validation'],
  'data/labels/answers': ['no completion in {source} fits into a sequence of {seq} tokens'],
  'data/size': ['{source} has more than {most} of text'],
  'data/empty': ['there is no text file in {source}'],
  'data/binary': ['{source} is not text', 'try tokenizer bytes'],
} as const satisfies ProblemPhrases

const remedy = 'try a smaller lr, a warmup, or clip'
const leftAs = '{why}; parameters and optimizer state are unchanged since step {left}'
const moreSkips = `${remedy}, check the data of these steps, or allow more` as const
const ofIgnorance = 'an untrained model has {ignorant}'
const resumeOr = 'resume with --resume {newest}, or set another folder with --save'

const divergencePhrases = {
  'training/loss': ['the loss of step {step} is {loss}', remedy],
  'training/norm/step': [`step {step} was skipped: ${leftAs}`, moreSkips],
  'training/norm/steps': [`steps {first} to {step} were skipped: ${leftAs}`, moreSkips],
  '.skipped/spike': ['grad norm {norm} is a spike: expected below {limit}, from earlier steps'],
  '.skipped/above': ['grad norm {norm} >= {limit}'],
  '.skipped/not-finite': ['grad norm is NaN or Inf'],
  '.skipped/scale': ['grad norm is NaN or Inf, loss scale {before} -> {now}'],
  'training/scale': [
    'the gradients of step {step} are NaN or Inf with the loss scale at its minimum, {min}',
    `gradients overflow even unscaled: ${remedy}, or bf16, which has the range of f32 (models trained in bf16 often overflow f16)`,
  ],
  'training/diverged/step': [`the run diverges: the loss of step {step} is {loss}, ${ofIgnorance}`, remedy],
  'training/diverged/mean': [
    `the run diverges: the mean loss of the last {steps} steps is {loss}, ${ofIgnorance}`,
    remedy,
  ],
  'training/diverged/last': [`the run diverges: the last loss is {loss}, ${ofIgnorance}`, remedy],
} as const satisfies ProblemPhrases

const savingPhrases = {
  'checkpoint/values': [
    '{path} was not written: {what}',
    'resume an earlier checkpoint with a smaller lr, or with clip',
  ],
  'checkpoint/exists': [
    '{folder} has checkpoints of another run, the latest is {last}; this run would start at step 1',
    resumeOr,
  ],
  'checkpoint/exists/later': [
    '{folder} has {last} of another run, which is later than step {behind}, where this run resumes',
    resumeOr,
  ],
  'checkpoint/locked/removed': ['{path} was removed during the run'],
  'checkpoint/locked': ['{folder} is in use by {holder}, which is running', 'set another folder with --save'],
  'checkpoint/locked/elsewhere': [
    '{folder} is in use by {holder}',
    'set another folder with --save, or delete {lock} if that run has ended',
  ],
  '.holder': ['run {run} (process {pid} on {host}, since {since})'],
} as const satisfies ProblemPhrases

const noPlan = 'no valid plan with at most {ranks} ranks and {globalBatch} sequences per step'
const moreRanks = 'resume with more ranks, or with a plan of your own'

export const runPhrases = {
  ...failurePhrases,
  ...divergencePhrases,
  ...savingPhrases,
  'engine/failed/when': ['{when}: {what}'],
  'run/replicas': [
    'replicas differ since step {step}: checkpoints after step {equal} may be corrupt',
    'resume from the checkpoint of step {equal} or an earlier one',
  ],
  'run/replicas/start': [
    'replicas differ since step {step}: every checkpoint of this run may be corrupt',
    'restart from scratch',
  ],
  'run/given-up': [
    '{failures} failures without a completed step; the last: {failure}',
    'read the flight records: repeated failures at the same place have a deterministic cause',
  ],
  'run/ranks': [noPlan, moreRanks],
  'run/ranks/because': [`${noPlan}: {why}`, moreRanks],
} as const satisfies ProblemPhrases

export const { refused: runRefused, advised: runAdvised, clause: runClause } = phrasing(runPhrases)
export const { refused, advised, clause } = phrasing(dataPhrases)
