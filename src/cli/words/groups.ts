/** What `lockstep groups` is called with. */
import { type Command, InvalidArgumentError } from 'commander'
// Not through the folder's index: groups need neither schemas nor YAML, and these take longer to load than to use.
import { defaultGroupOrder, systems } from '../../plan/groups.js'
import type { GroupsOptions } from '../commands/groups.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Lists the process groups of a parallelism config along every axis, for dense and expert layers, as Megatron, DeepSpeed, torchtitan or picotron number ranks.',
    )
    .requiredOption('--devices <n>', 'world size', number)
    .option('--tp <n>', 'tensor parallel size', number, 1)
    .option('--cp <n>', 'context parallel size', number, 1)
    .option('--ep <n>', 'expert parallel size', number, 1)
    .option('--etp <n>', 'tensor parallel size of expert layers (default: tp)', number)
    .option('--pp <n>', 'pipeline parallel size', number, 1)
    .option('--dp-replicate <n>', 'torchtitan: number of replicas of the sharded model (HSDP)', number, 1)
    .addOption(command.createOption('--dp <n>').argParser(derived).hideHelp())
    .option('--order <axes>', 'rank order, fastest varying first', defaultGroupOrder)
    .addOption(
      command.createOption('--like <system>', 'framework whose rank order to use').choices(systems).default('megatron'),
    )
    .option('--json', 'groups as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep groups --devices 16 --tp 2 --cp 2 --pp 2 --json\n\nExit code 0: fine, 1: the sizes do not multiply to the world size, 2: usage error.',
    )
    .action(async (options: GroupsOptions) => {
      const { groupsCommand } = await import('../commands/groups.js')
      done(await groupsCommand(options, io))
    })
}

const number = (text: string): number => {
  if (!/^-?\d+(\.\d+)?$/.test(text)) throw new InvalidArgumentError('expected a number.')
  return Number(text)
}

function derived(): never {
  throw new InvalidArgumentError('dp follows from the others: dp = devices / (tp x cp x pp). Leave it out.')
}
