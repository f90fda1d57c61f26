/** The options of commands that write checkpoints or start from one. */
import { join } from 'node:path'
import { type Command, Option } from 'commander'
import type { Keep, Origin } from '../../train/index.js'
import { positive } from './integer.js'

/** The same names as those of an emitted program. */
export interface CheckpointOptions extends Origin {
  readonly save?: string
  readonly saveEvery?: number
  readonly saveSync?: boolean
  readonly keep?: number
  readonly keepEvery?: number
}

export const adaptersHelp = 'with --init: PEFT adapters to start from (training.lora must match)'

export const withCheckpointOptions = (command: Command): Command =>
  command
    .option('--save <folder>', 'write a checkpoint there after the last step')
    .option('--save-every <n>', 'also every n steps (into the run folder, unless --save names another)', positive)
    .option('--save-sync', 'block training while a checkpoint is written: needs no memory for a copy')
    .option(
      '--keep <n>',
      'keep only the last n checkpoints of this run and of those it resumes (default: all)',
      positive,
    )
    .option('--keep-every <n>', 'with --keep: also keep those of every n-th step', positive)
    .addOption(
      new Option(
        '--resume <checkpoint>',
        'resume from a checkpoint of any plan, or from the latest complete one in a folder',
      ).conflicts('init'),
    )
    .option('--init <checkpoint>', 'start at step 1 with the weights of a checkpoint or a Hugging Face folder')
    .option('--adapters <folder>', adaptersHelp)

/** Where checkpoints go, and how often. */
export interface SavePlan {
  readonly folder: string
  /** 0: only after the last step. */
  readonly every: number
  readonly keep?: Keep
}

export function savePlanOf(options: CheckpointOptions, runFolder: string): SavePlan | undefined {
  const { save, saveEvery, keep, keepEvery } = options
  if (save === undefined && saveEvery === undefined) return undefined
  return {
    folder: save ?? join(runFolder, 'checkpoints'),
    every: saveEvery ?? 0,
    ...(keep !== undefined && { keep: { last: keep, ...(keepEvery !== undefined && { every: keepEvery }) } }),
  }
}

/** Ends the command where an option says how checkpoints are written or kept, and none would be. */
export function requireSaving(command: Command, options: CheckpointOptions): void {
  const { save, saveEvery, saveSync, keep, keepEvery } = options
  const saves = save !== undefined || saveEvery !== undefined
  const idle = saves ? [] : [...(saveSync ? ['--save-sync'] : []), ...(keep === undefined ? [] : ['--keep'])]
  const problems = [
    ...idle.map(option => `${option} has no effect without --save or --save-every: no checkpoints are written`),
    ...(keepEvery !== undefined && keep === undefined
      ? ['--keep-every has no effect without --keep: all checkpoints are kept']
      : []),
  ]
  if (problems.length > 0) command.error(`error: ${problems.join('\nerror: ')}`)
}
