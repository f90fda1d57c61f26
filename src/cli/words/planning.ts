/** Options that `plan`, `scale`, `explain` and `simulate` share. */
import { type Command, Option } from 'commander'
import { precisions } from '../../base/index.js'
import { frameworks } from '../../estimate/others/frameworks.js'
import { size } from '../text/integer.js'

export const softwareOption = (): Option =>
  new Option('--software <name>', 'the framework to model: what it fuses, overlaps and keeps in memory')
    .choices(Object.keys(frameworks))
    .default('lockstep')

export const precisionOption = (): Option =>
  new Option('--precision <name>', 'matmul precision').choices([...precisions]).default('bf16')

export const planningOptions = (command: Command): Command =>
  command
    .requiredOption('--model <name>', 'a preset (lockstep models), or a Hugging Face config.json')
    .requiredOption('--cluster <name>', 'a device of the catalog (lockstep cluster list), or a cluster file')
    .requiredOption('--seq <tokens>', 'sequence length in tokens: 8192, or 8k', size)
    .requiredOption('--global-batch <sequences>', 'global batch size in sequences', size)
    .addOption(precisionOption())
    .addOption(softwareOption())
    .option('--lora [settings]', "LoRA, as training.lora of a job: '{ rank: 16, targets: all-linear }'")
    .option(
      '--constraint <what...>',
      "limits on plans: 'tp<=8' 'pp=16' 'zero!=3' 'schedule=1f1b|interleaved' 'memory<=70GiB'",
      [],
    )
