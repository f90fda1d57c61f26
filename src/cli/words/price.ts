/** What `lockstep price` is called with. */
import { type Command, InvalidArgumentError } from 'commander'
import { parseBytes } from '../../base/index.js'
// Not through the folder's index, which loads schemas.
import { type CollectiveKind, collectiveKinds } from '../../cluster/collective-kinds.js'
import type { PriceOptions } from '../commands/price.js'
import type { Io } from '../io.js'
import { size } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Prices a collective on a cluster: every algorithm with its bytes on the wire, latency and bandwidth, time, algbw and ' +
        'busbw as nccl-tests defines them (GB is 1e9 bytes), which one is chosen, and the limits.',
    )
    .addArgument(command.createArgument('<collective>', collectiveKinds.join(', ')).choices(collectiveKinds))
    .requiredOption('--cluster <cluster>', 'a device of the catalog, or a cluster file')
    .requiredOption('--ranks <n>', 'ranks that meet', size)
    .option('--size <bytes>', 'the whole: what is reduced or sent, what is there after a gather', bytes)
    .option('--sizes <range>', 'a table of sizes, each twice the one before, such as 1KiB..1GiB', range)
    .option('--stride <n>', 'ranks from one that meets to the next (default: 1, neighbours)', size)
    .option('--ranks-per-node <n>', 'of each node so many meet, instead of --stride', size)
    .option('--devices <n>', 'devices of the cluster (default: as many as the ranks need)', size)
    .option('--json', 'numbers as JSON')
    .addHelpText(
      'after',
      [
        '\nExamples:',
        '  lockstep price all-reduce --size 1GiB --ranks 64 --cluster h100',
        '  lockstep price all-gather --sizes 1KiB..1GiB --ranks 16 --ranks-per-node 1 --cluster h100',
        '\nExit code 0: fine, 1: there is no such cluster or group, 2: usage error.',
      ].join('\n'),
    )
    .action(async (kind: CollectiveKind, options: PriceOptions) => {
      const { priceCommand } = await import('../commands/price.js')
      done(priceCommand(kind, options, io))
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
