/** What `lockstep eval` is called with. */
import { type Command, Option } from 'commander'
import { kernelNames } from '../../engine/kernel-names.js'
import type { EvalOptions } from '../commands/eval.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Evaluates a model on a text: loss (nats/token), perplexity, bits/byte. Uses the sequence length of training.',
    )
    .argument(
      '<checkpoint>',
      'a checkpoint, a folder of checkpoints (the latest complete one is used), or a Hugging Face folder',
    )
    .option('--adapters <folder>', 'PEFT adapters to apply')
    .option(
      '--data <file>',
      'a text file, a folder of texts, or a .bin file of token ids (default: the validation data of the job)',
    )
    .addOption(
      new Option('--kernels <name>', 'which kernels to use').choices(['auto', ...kernelNames]).default('auto' as const),
    )
    .option('--json', 'the numbers as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep eval runs/start/checkpoints --data README.md\n\nExit code 0: fine, 1: problems found, 2: usage error.',
    )
    .action(async (path: string, options: EvalOptions) => {
      const { evalCommand } = await import('../commands/eval.js')
      done(await evalCommand(path, options, io))
    })
}
