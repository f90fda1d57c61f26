/** What `lockstep cost` is called with. */
import { type Command, InvalidArgumentError } from 'commander'
import { parseBytes } from '../../base/index.js'
// Not through the folder's index, which loads schemas.
import { type CollectiveKind, collectiveKinds } from '../../cluster/collective-kinds.js'
import type { CostOptions } from '../commands/cost.js'
import type { Io } from '../io.js'
import { size } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Estimates the time of a collective on a cluster: every algorithm with bytes on the wire, latency, bandwidth, algbw and ' +
        'busbw as nccl-tests defines them (1 GB is 1e9 bytes), the algorithm chosen, and the lower bounds.',
    )
    .addArgument(command.createArgument('<collective>', 'what the ranks do').choices(collectiveKinds))
    .requiredOption('--cluster <cluster>', 'a device (lockstep cluster list) or a cluster file')
    .requiredOption('--ranks <n>', 'ranks in the process group', size)
    .option('--size <bytes>', 'message size: the full tensor that is reduced, sent or gathered (default: 1 GiB)', bytes)
    .option('--sizes <range>', 'a table of sizes, doubling from first to last, such as 1KiB..1GiB', range)
    .option('--stride <n>', 'distance between consecutive ranks of the group (default: 1)', size)
    .option('--ranks-per-node <n>', 'ranks of the group on each node, instead of --stride', size)
    .option('--devices <n>', 'devices of the cluster (default: as many as the group needs)', size)
    .option('--json', 'numbers as JSON')
    .addHelpText(
      'after',
      [
        '\nExamples:',
        '  lockstep cost all-reduce --size 1GiB --ranks 64 --cluster h100',
        '  lockstep cost all-gather --sizes 1KiB..1GiB --ranks 16 --ranks-per-node 1 --cluster h100',
        '\nExit code 0: fine, 1: no such cluster or group, 2: usage error.',
      ].join('\n'),
    )
    .action(async (kind: CollectiveKind, options: CostOptions) => {
      const { costCommand } = await import('../commands/cost.js')
      done(costCommand(kind, options, io))
    })
}

function bytes(text: string): number {
  const value = parseBytes(text)
  if (!value) throw new InvalidArgumentError('expected an amount of bytes, such as 1GiB, 25MB or 4096.')
  return value
}

function range(text: string): readonly [number, number] {
  const [from, to, ...more] = text.split('..').map(parseBytes)
  if (!from || !to || more.length > 0 || to < from)
    throw new InvalidArgumentError('expected two amounts of bytes, such as 1KiB..1GiB.')
  return [from, to]
}
