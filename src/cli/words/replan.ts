/** What `lockstep replan` is called with. */
import type { Command } from 'commander'
import type { ReplanOptions } from '../commands/replan.js'
import { latestRun } from '../files/latest-run.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Searches again with the hardware rates measured in a run (measured.json in its folder), and reports whether another plan would be faster and by how much.',
    )
    .argument('[run]', 'the run folder', latestRun)
    .option(
      '--cluster <name>',
      'the cluster it runs on: a device of the catalog, or a cluster file (default: this machine)',
    )
    .option('--out <file>', 'write the job with the better plan')
    .option('--json', 'everything as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  lockstep replan\n  lockstep replan runs/start --out better.yaml\n\nExit code 0: searched, 1: the run has problems, 2: usage error.',
    )
    .action(async (path: string, options: ReplanOptions) => {
      const { replanCommand } = await import('../commands/replan.js')
      done(await replanCommand(path, options, io))
    })
}
