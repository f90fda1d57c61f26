/** What `lockstep cluster` is called with. */
import type { Command } from 'commander'
import type { ShowOptions } from '../commands/cluster.js'
import type { Io } from '../io.js'
import { size } from '../text/integer.js'

const examples = '\nExamples:\n  lockstep cluster list\n  lockstep cluster show h100 --devices 1024 --svg h100.svg'

export function register(cluster: Command, io: Io, done: (code: number) => void): void {
  cluster
    .description('Devices of the catalog with their rates, memory and price, and how clusters of them are joined.')
    .addHelpText('after', `${examples}\n\nExit code 0: fine, 1: no such cluster, 2: usage error. Both have --json.`)

  cluster
    .command('list')
    .description('Every device of the catalog.')
    .option('--json', 'devices as JSON')
    .action(async (options: { json?: boolean }) => {
      const { clusterList } = await import('../commands/cluster.js')
      done(clusterList(options, io))
    })

  cluster
    .command('show')
    .description('One cluster: a picture of how its devices are joined, what a device does, and the sources.')
    .argument('<cluster>', 'a device of the catalog, or a cluster file')
    .option('--devices <n>', 'how many', size)
    .option('--svg <file>', 'write the picture there')
    .option('--json', 'the cluster as JSON: a cluster file that can be changed')
    .addHelpText('after', examples)
    .action(async (given: string, options: ShowOptions) => {
      const { clusterShow } = await import('../commands/cluster.js')
      done(clusterShow(given, options, io))
    })
}
