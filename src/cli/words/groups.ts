/** What `lockstep groups` is called with. */
import { type Command, InvalidArgumentError } from 'commander'
// Not through the folder's index: groups need neither schemas nor YAML, and these take longer to load than to use.
import { defaultGroupOrder, systems } from '../../plan/groups.js'
import type { GroupsOptions } from '../commands/groups.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description('Partitions the ranks of a world along every axis, for dense and for expert layers.')
    .requiredOption('--world <n>', 'ranks', number)
    .option('--tp <n>', 'tensor parallel ranks', number, 1)
    .option('--cp <n>', 'context parallel ranks', number, 1)
    .option('--ep <n>', 'expert parallel ranks', number, 1)
    .option('--etp <n>', 'tensor parallel ranks of expert layers (default: tp)', number)
    .option('--pp <n>', 'pipeline ranks', number, 1)
    .addOption(command.createOption('--dp <n>').argParser(derived).hideHelp())
    .option('--dp-replicate <n>', 'torchtitan: copies of the sharded model', number, 1)
    .option('--order <axes>', 'rank order, fastest varying first', defaultGroupOrder)
    .addOption(command.createOption('--like <system>', 'whose order of ranks').choices(systems).default('megatron'))
    .option('--json', 'groups as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep groups --world 16 --tp 2 --cp 2 --pp 2 --json\n\nExit code 0: fine, 1: the sizes do not fit together, 2: usage error.',
    )
    .action(async (options: GroupsOptions) => {
      const { groupsCommand } = await import('../commands/groups.js')
      done(await groupsCommand(options, io))
    })
}

const number = (text: string): number => {
  if (!/^-?\d+(\.\d+)?$/.test(text)) throw new InvalidArgumentError('It must be a number.')
  return Number(text)
}

function derived(): never {
  throw new InvalidArgumentError('dp follows from the others: dp = world / (tp x cp x pp). Leave it out.')
}
