/** What `lockstep init` is called with. */
import type { Command } from 'commander'
import type { InitOptions } from '../commands/init.js'
import type { Io } from '../io.js'
import { size } from '../text/integer.js'

/** The names of `templates`, which a test holds against them: templates load schemas. */
export const templateChoices = ['first-run', 'llama-8b', 'moe', 'long-context', 'fine-tune', 'lora'] as const

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Writes a job to begin with, every field with what it means. On a terminal it asks for the purpose, the model, the data and the devices; else it takes what is said here.',
    )
    .addOption(
      command.createOption('--template <name>', 'what to begin with (default: first-run)').choices(templateChoices),
    )
    .option('--model <name>', 'a preset, or a Hugging Face config.json')
    .option('--data <path>', 'a text file or a folder of them, or a file of tokens')
    .option('--devices <n>', 'devices of the cluster, or ranks of this machine', size)
    .option('--out <file>', 'where to write it', 'job.yaml')
    .option('--yes', 'ask nothing')
    .option('--force', 'write over a file that is there')
    .option('--json', 'what was written as JSON; asks nothing')
    .addHelpText(
      'after',
      [
        '\nExamples:',
        '  lockstep init',
        '  lockstep init --template llama-8b --devices 128 --out llama.yaml',
        '\nExit code 0: written, 1: there is such a file, or no such plan, 2: usage error.',
      ].join('\n'),
    )
    .action(async (options: InitOptions) => {
      const { initCommand } = await import('../commands/init.js')
      done(await initCommand(options, io))
    })
}
