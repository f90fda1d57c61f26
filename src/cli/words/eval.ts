/** What `lockstep eval` is called with. */
import { type Command, Option } from 'commander'
import { kernelNames } from '../../engine/kernel-names.js'
import type { EvalOptions } from '../commands/eval.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'How well the model of a checkpoint knows a text: loss (nats per token), perplexity, bits per byte. Sequences are as long as those of training.',
    )
    .argument(
      '<checkpoint>',
      'a checkpoint, a folder of them, of which the newest whole one is taken, or a Hugging Face folder',
    )
    .option('--adapters <folder>', 'adapters of PEFT to put beside the weights')
    .option('--data <file>', 'a text, a folder of texts, or a .bin file of ids (default: what the job holds out)')
    .addOption(
      new Option('--kernels <name>', 'the kernels that compute')
        .choices(['auto', ...kernelNames])
        .default('auto' as const),
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
