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
      'Writes a job file to start from, with a comment for every field. On a terminal it asks for purpose, model, data and devices; otherwise it uses the options and defaults.',
    )
    .addOption(command.createOption('--template <name>', 'template (default: first-run)').choices(templateChoices))
    .option('--model <name>', 'a preset, or a Hugging Face config.json')
    .option('--data <path>', 'a text file, a folder of text files, or a file of token ids')
    .option('--devices <n>', 'number of devices of the cluster, or of ranks on this machine', size)
    .option('--out <file>', 'where to write the job', 'job.yaml')
    .option('--yes', 'do not ask, use defaults')
    .option('--force', 'overwrite an existing file')
    .option('--json', 'what was written, as JSON; does not ask')
    .addHelpText(
      'after',
      [
        '\nExamples:',
        '  lockstep init',
        '  lockstep init --template llama-8b --devices 128 --out llama.yaml',
        '\nExit code 0: written, 1: the file exists, or no such plan, 2: usage error.',
      ].join('\n'),
    )
    .action(async (options: InitOptions) => {
      const { initCommand } = await import('../commands/init.js')
      done(await initCommand(options, io))
    })
}
