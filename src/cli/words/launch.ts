/** What `lockstep launch` is called with. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { LaunchOptions } from '../commands/launch.js'
import type { Io } from '../io.js'
import { requireSaving, withCheckpointOptions } from '../text/checkpoint-options.js'
import { everyOption, faultOption } from '../text/fault-option.js'
import { integer, positive, ranksOf } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Emits the job and runs it on this machine: one process per rank, started by torchrun. Shows what train shows. Ctrl-C or SIGTERM ends all ranks; where checkpoints are written, one is written first.',
    )
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--out <folder>', 'where to write it (default: a new one below runs/)')
    .option('--steps <n>', 'number of steps, instead of the job’s', integer)
    .option('--seed <n>', 'seed of weights, masks and data, instead of the job’s', integer)
    .option('--device <name>', 'auto, cpu or cuda', 'cpu')
    .option(
      '--timeout <seconds>',
      'how long a rank waits for its peers (default: ten times the longest time the same call took, at least 10)',
      seconds,
    )
    .option(
      '--elastic',
      'restart from the newest checkpoint when a rank is lost (saves every 20 steps, keeps the last 3)',
    )
    .addOption(
      new Option('--shrink', 'do not replace lost ranks, continue with fewer (implies --elastic)').implies({
        elastic: true,
      }),
    )
    .addOption(faultOption())
    .addOption(everyOption('--hash-every', 'compare parameter replicas bit by bit every n steps'))
    .option(
      '--profile-every <n>',
      'measure every n-th step: time of each rank by part, and bandwidth of collectives',
      positive,
    )
    .option('--tensorboard <folder>', 'write event files for TensorBoard during the run')
    .addOption(
      new Option('--also <ranks>', 'world sizes to continue with, such as 4,6 or 4..7 (implies --shrink)')
        .argParser(ranksOf)
        .implies({ shrink: true, elastic: true }),
    )
  withCheckpointOptions(command)
    .option('--json', 'one JSON object per step')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep launch job.yaml --steps 20\n  lockstep launch job.yaml --elastic --fault kill:rank=1,step=30\n\nExit code 0: trained, 1: problems, 2: usage error, 130: interrupted, 143: terminated.',
    )
    .action(async (path: string, options: LaunchOptions) => {
      if (!options.elastic) requireSaving(command, options)
      const { launchCommand } = await import('../commands/launch.js')
      done(await launchCommand(path, options, io))
    })
}

function seconds(text: string): number {
  const value = Number(text)
  if (!(value > 0 && value <= 1e6)) throw new InvalidArgumentError('expected a number of seconds.')
  return value
}
