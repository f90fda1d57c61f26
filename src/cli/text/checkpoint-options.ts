/** The options of commands that write checkpoints or start from one. */
import { join } from 'node:path'
import { type Command, Option } from 'commander'
import type { Origin } from '../../train/index.js'
import { positive } from './integer.js'

/** The same names as those of an emitted program. */
export interface CheckpointOptions extends Origin {
  readonly save?: string
  readonly saveEvery?: number
}

export const withCheckpointOptions = (command: Command): Command =>
  command
    .option('--save <folder>', 'write a checkpoint there after the last step')
    .option('--save-every <n>', 'and after every n steps (into the run folder, where --save names no other)', positive)
    .addOption(
      new Option(
        '--resume <checkpoint>',
        'resume from a checkpoint of any plan, or from the last one in a folder',
      ).conflicts('init'),
    )
    .option('--init <checkpoint>', 'start with the weights of a checkpoint, at step 1')

/** Where checkpoints go, and how often. */
export interface SavePlan {
  readonly folder: string
  /** 0: only after the last step. */
  readonly every: number
}

export const savePlanOf = ({ save, saveEvery }: CheckpointOptions, runFolder: string): SavePlan | undefined =>
  save === undefined && saveEvery === undefined
    ? undefined
    : { folder: save ?? join(runFolder, 'checkpoints'), every: saveEvery ?? 0 }
