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
      'Goes on from a prompt with the model of a checkpoint, of whatever plan and family: token by token, as text while it is made. Always the likeliest token, unless there is a temperature.',
    )
    .argument(
      '<checkpoint>',
      'a checkpoint, a folder of them, of which the newest whole one is taken, or a Hugging Face folder',
    )
    .addOption(new Option('--prompt <text>', 'the text to go on from').conflicts(['ids', 'chat']))
    .addOption(new Option('--ids <ids>', 'the same as ids of tokens: 17,4,99').conflicts('chat'))
    .option('--chat', 'read line by line from standard input, and answer each')
    .option('--adapters <folder>', 'adapters of PEFT to put beside the weights')
    .option('--tokens <n>', 'how many tokens to make at most (default: 128)', positive)
    .option('--temperature <t>', 'draw tokens: below 1 the likely ones more often (default: 0, the likeliest)', amount)
    .option('--top-k <k>', 'draw from the k likeliest tokens', positive)
    .option('--top-p <p>', 'draw from the fewest tokens whose probabilities add up to p', share)
    .option('--seed <n>', 'of what is drawn: the same seed, the same text (default: 0)', integer)
    .option('--context <n>', 'tokens to remember at most (default: the length of training sequences)', size)
    .option('--no-cache', 'read all tokens anew for every next one: slower, and the same text')
    .option('--threads <n>', 'threads that compute (default: as many as pay)', positive)
    .addOption(
      new Option('--kernels <name>', 'the kernels that compute')
        .choices(['auto', ...kernelNames])
        .default('auto' as const),
    )
    .option('--json', 'text, ids and times as JSON; with --chat a line for each answer')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep generate runs/start/checkpoints --prompt "export function " --temperature 0.8 --top-k 40\n\nExit code 0: fine, 1: problems found, 2: usage error, 130: interrupted.',
    )
    .action(async (path: string, options: GenerateCommandOptions) => {
      const { generateCommand } = await import('../commands/generate.js')
      done(await generateCommand(path, options, io))
    })
}
