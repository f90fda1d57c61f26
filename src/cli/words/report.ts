/** What `lockstep report` is called with. */
import type { Command } from 'commander'
import type { ReportOptions } from '../commands/report.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Writes a run as one HTML page that needs nothing else: loss and rates, time by part as predicted and measured, memory, collectives, events, checkpoints, the job. train writes the same page when it ends.',
    )
    .argument('<run>', 'the run folder (train --out, or that of train.py)')
    .option('--out <file>', 'where to write it (default: report.html in the run folder)')
    .option('--json', 'where it was written as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep report runs/start\n\nExit code 0: written, 1: no run there, 2: usage error.',
    )
    .action(async (path: string, options: ReportOptions) => {
      const { reportCommand } = await import('../commands/report.js')
      done(await reportCommand(path, options, io))
    })
}
