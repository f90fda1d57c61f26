/** What `lockstep import` is called with. */
import type { Command } from 'commander'
// Not through the folder's index: help needs neither schemas nor YAML.
import { foreignFrameworks } from '../../plan/foreign.js'
import type { ImportOptions } from '../commands/import.js'
import type { Io } from '../io.js'
import { size } from '../text/integer.js'
import { pair } from '../text/pairs.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Converts a config of another framework to a job and reports every key: mapped, derived, defaulted or dropped. Scripts are read, never executed.',
    )
    .argument('<file>', 'the config or launch script (- for standard input), or the folder of a run that contains it')
    .argument(
      '[words...]',
      'NAME=value: environment variables of the script; after --: its arguments, or options that override the file',
    )
    .addOption(
      command
        .createOption('--from <framework>', 'the framework (default: detected from the content)')
        .choices(foreignFrameworks),
    )
    .option('--devices <n>', 'world size, if the file does not set it', size)
    .option('--model <name>', 'a preset or a Hugging Face config.json, if the file has no model')
    .option('--seq <tokens>', 'sequence length, if the file does not set it: 8192, or 8k', size)
    .option('--trainer <key=value>', 'an argument of the Hugging Face Trainer that replaces an auto', pair, {})
    .option('--arg <word>', 'one argument, as after -- (--arg=--training.steps)', word, [])
    .option('--set <name=value>', 'override a variable of the script, or an argument of the function', pair, {})
    .option('--env <name=value>', 'an environment variable of the script', pair, {})
    .option('--function <name>', 'the function of a Python file that returns the config')
    .option('--release <name>', 'Megatron-LM release whose defaults apply (default: the newest with all the flags)')
    .option('--out <file>', 'write the job')
    .option('--json', 'job, world and problems as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep import ds_config.json --devices 16 --trainer bf16=true --model llama3-8b --out job.yaml\n\nExit code 0: there is a job, 1: refused, or the job has errors, 2: usage error.',
    )
    .action(async (path: string, words: readonly string[], options: ImportOptions) => {
      const { importCommand } = await import('../commands/import.js')
      done(await importCommand(path, { ...options, arg: [...options.arg, ...words] }, io))
    })
}

const word = (text: string, before: readonly string[]): readonly string[] => [...before, text]
