/** What `lockstep models` is called with. */
import type { Command } from 'commander'
import type { ModelsOptions } from '../commands/models.js'
import type { Io } from '../io.js'
import { size } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Lists the model presets for `model: name` in a job: total and active parameters, FLOPs/token, size, context, KV cache/token. ' +
        'With a name, or the path of a Hugging Face config.json: one model in detail.',
    )
    .argument('[name]', 'a preset, or a config.json')
    .option('--seq <n>', 'sequence length for FLOPs and KV cache (default: the context of the model)', size)
    .option('--json', 'numbers as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  lockstep models\n  lockstep models llama3-8b\n  lockstep models ./config.json --seq 32k\n\nExit code 0: fine, 1: no such model, 2: usage error.',
    )
    .action(async (name: string | undefined, options: ModelsOptions) => {
      const { modelsCommand } = await import('../commands/models.js')
      done(await modelsCommand(name, options, io))
    })
}
