/** What `lockstep cluster` is called with. */
import type { Command } from 'commander'
import type { ShowOptions } from '../commands/cluster.js'
import type { Io } from '../io.js'
import { size } from '../text/integer.js'

const examples = '\nExamples:\n  lockstep cluster list\n  lockstep cluster show h100 --devices 1024 --svg h100.svg'

export function register(cluster: Command, io: Io, done: (code: number) => void): void {
  cluster
    .description(
      'Lists the devices of the catalog (FLOP/s, memory, bandwidth, price per hour), and draws clusters of them.',
    )
    .addHelpText('after', `${examples}\n\nExit code 0: fine, 1: no such cluster, 2: usage error. Both have --json.`)

  cluster
    .command('list')
    .description('Lists every device of the catalog.')
    .option('--json', 'devices as JSON')
    .action(async (options: { json?: boolean }) => {
      const { clusterList } = await import('../commands/cluster.js')
      done(clusterList(options, io))
    })

  cluster
    .command('show')
    .description('Draws the topology of a cluster and prints the rates of its devices and links, with their sources.')
    .argument('<cluster>', 'a device (lockstep cluster list) or a cluster file')
    .option('--devices <n>', 'number of devices', size)
    .option('--svg <file>', 'write the drawing there')
    .option('--json', 'the cluster as JSON: a cluster file to edit')
    .addHelpText('after', examples)
    .action(async (given: string, options: ShowOptions) => {
      const { clusterShow } = await import('../commands/cluster.js')
      done(clusterShow(given, options, io))
    })
}
