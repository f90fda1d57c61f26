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

/** What a job file can stand for. */
const ofJob = () => [
  new Option('--model <name>', 'a preset (lockstep models), or a Hugging Face config.json'),
  new Option('--seq <tokens>', 'sequence length in tokens: 8192, or 8k').argParser(size),
  new Option('--global-batch <sequences>', 'global batch size in sequences').argParser(size),
]

/** Those that are needed where no job is given. */
export const missingWithoutJob = (given: Readonly<Record<string, unknown>>): Option[] =>
  ofJob().filter(option => given[option.attributeName()] === undefined)

/** `mayHaveJob`: the command takes a job in place of a model and sizes. */
export function planningOptions(command: Command, { mayHaveJob }: { readonly mayHaveJob: boolean }): Command {
  for (const option of ofJob()) command.addOption(mayHaveJob ? option : option.makeOptionMandatory())
  return command
    .requiredOption('--cluster <name>', 'a device (lockstep cluster list) or a cluster file')
    .addOption(precisionOption())
    .addOption(softwareOption())
    .option('--lora [settings]', "LoRA, as training.lora of a job: '{ rank: 16, targets: all-linear }'")
    .option(
      '--constraint <what...>',
      "limits on plans: 'tp<=8' 'pp=16' 'zero!=3' 'schedule=1f1b|interleaved' 'memory<=70GiB'",
      [],
    )
}
