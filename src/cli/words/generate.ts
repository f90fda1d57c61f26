/** What `lockstep generate` is called with. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { kernelNames } from '../../engine/kernel-names.js'
import type { GenerateCommandOptions } from '../commands/generate.js'
import type { Io } from '../io.js'
import { integer, positive, size } from '../text/integer.js'

/** A number from 0 up. */
function amount(text: string): number {
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (!(value >= 0 && value < Number.POSITIVE_INFINITY))
    throw new InvalidArgumentError('expected a number from 0 up, such as 0.8.')
  return value
}

/** A number above 0 and up to 1. */
function share(text: string): number {
  if (!(amount(text) > 0 && amount(text) <= 1)) throw new InvalidArgumentError('expected a number above 0, up to 1.')
  return amount(text)
}

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Generates text from a checkpoint of any plan and model family, and streams it. Greedy by default; --temperature samples.',
    )
    .argument(
      '<checkpoint>',
      'a checkpoint, a folder of checkpoints (the latest complete one is used), or a Hugging Face folder',
    )
    .addOption(new Option('--prompt <text>', 'the prompt').conflicts(['ids', 'chat']))
    .addOption(new Option('--ids <ids>', 'the prompt as token ids: 17,4,99').conflicts('chat'))
    .option('--chat', 'chat: answer each line of standard input')
    .option('--adapters <folder>', 'PEFT adapters to apply')
    .option('--tokens <n>', 'maximum number of new tokens (default: 128)', positive)
    .option('--temperature <t>', 'sampling temperature (default: 0, greedy)', amount)
    .option('--top-k <k>', 'sample from the k most likely tokens', positive)
    .option('--top-p <p>', 'nucleus sampling: from the smallest set of tokens with total probability p', share)
    .option('--seed <n>', 'sampling seed (default: 0)', integer)
    .option('--context <n>', 'maximum context in tokens (default: the sequence length of training)', size)
    .option('--no-cache', 'recompute the full context for each token instead of using a KV cache (slower, same text)')
    .option('--threads <n>', 'number of threads (default: chosen by model size)', positive)
    .addOption(
      new Option('--kernels <name>', 'which kernels to use').choices(['auto', ...kernelNames]).default('auto' as const),
    )
    .option('--json', 'text, ids and times as JSON; with --chat one line per answer')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep generate runs/start/checkpoints --prompt "export function " --temperature 0.8 --top-k 40\n\nExit code 0: fine, 1: problems found, 2: usage error, 130: interrupted.',
    )
    .action(async (path: string, options: GenerateCommandOptions) => {
      const { generateCommand } = await import('../commands/generate.js')
      done(await generateCommand(path, options, io))
    })
}
