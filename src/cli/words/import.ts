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
      'Makes a job of a configuration of another framework, and says what was carried, derived, assumed and not carried. Scripts are read, never executed.',
    )
    .argument('<file>', 'the configuration (- for standard input), or the folder of a run that has written it')
    .argument('[words...]', 'after --: arguments of the script, or options that stand above the file')
    .addOption(
      command
        .createOption('--from <framework>', 'whose it is (default: told by its content)')
        .choices(foreignFrameworks),
    )
    .option('--devices <n>', 'world size, where the file does not specify it', size)
    .option('--model <name>', 'a preset, or a Hugging Face config.json, where the file has no model')
    .option('--trainer <key=value>', 'an argument of the Hugging Face Trainer, for which auto stands', pair, {})
    .option('--arg <word>', 'one such word (--arg=--training.steps)', word, [])
    .option(
      '--set <name=value>',
      'a variable of the script, whatever it sets it to, or an argument of the function',
      pair,
      {},
    )
    .option('--env <name=value>', 'a variable of its environment', pair, {})
    .option('--function <name>', 'of a Python file, the function that makes the configuration')
    .option('--release <name>', 'of Megatron-LM: whose defaults hold (default: the newest that has all the flags)')
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
