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

export const adaptersHelp = 'with --init: adapters of PEFT to start with, as training.lora says them'

export const withCheckpointOptions = (command: Command): Command =>
  command
    .option('--save <folder>', 'write a checkpoint there after the last step')
    .option('--save-every <n>', 'and after every n steps (into the run folder, where --save names no other)', positive)
    .option('--save-sync', 'stand still until a checkpoint is written, which needs no memory for a copy')
    .option(
      '--keep <n>',
      'remove all but the last n checkpoints of this run and of those it resumes (default: none)',
      positive,
    )
    .option('--keep-every <n>', 'with --keep: leave those of every n steps too', positive)
    .addOption(
      new Option(
        '--resume <checkpoint>',
        'resume from a checkpoint of any plan, or from the last whole one in a folder',
      ).conflicts('init'),
    )
    .option('--init <checkpoint>', 'start with the weights of a checkpoint, or of a Hugging Face folder, at step 1')
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
    ...idle.map(option => `${option} does nothing without --save or --save-every: no checkpoint is written`),
    ...(keepEvery !== undefined && keep === undefined
      ? ['--keep-every does nothing without --keep: all are kept']
      : []),
  ]
  if (problems.length > 0) command.error(`error: ${problems.join('\nerror: ')}`)
}
