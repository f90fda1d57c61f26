/** The words that `plan`, `scale`, `explain` and `simulate` share. */
import { type Command, Option } from 'commander'
import { precisions } from '../../base/index.js'
import { frameworks } from '../../estimate/others/frameworks.js'
import { size } from '../text/integer.js'

export const softwareOption = (): Option =>
  new Option('--software <name>', 'the framework that runs it: what it fuses, overlaps and keeps in memory')
    .choices(Object.keys(frameworks))
    .default('lockstep')

export const precisionOption = (): Option =>
  new Option('--precision <name>', 'what numbers are multiplied in').choices([...precisions]).default('bf16')

export const planningOptions = (command: Command): Command =>
  command
    .requiredOption('--model <name>', 'a preset (llama3-405b), or a Hugging Face config.json')
    .requiredOption('--cluster <name>', 'a device of the catalog (lockstep cluster list), or a cluster file')
    .requiredOption('--seq <tokens>', 'tokens in a sequence: 8192, or 8k', size)
    .requiredOption('--global-batch <sequences>', 'sequences in one step, over all devices', size)
    .addOption(precisionOption())
    .addOption(softwareOption())
    .option(
      '--lora [settings]',
      "adapters alone are trained, as training.lora of a job says: '{ rank: 16, targets: all-linear }'",
    )
    .option(
      '--constraint <what...>',
      "what a plan must satisfy: 'tp<=8' 'pp=16' 'zero!=3' 'schedule=1f1b|interleaved' 'memory<=70GiB'",
      [],
    )
