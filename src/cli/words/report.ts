/** What `lockstep report` is called with. */
import type { Command } from 'commander'
import type { ReportOptions } from '../commands/report.js'
import { latestRun } from '../files/latest-run.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Writes a run as one self-contained HTML page: loss and learning rate, predicted and measured time breakdown, memory, collectives, events, checkpoints, the job. `train` writes the same page when it ends.',
    )
    .argument('[run]', 'the run folder', latestRun)
    .option('--out <file>', 'where to write it (default: report.html in the run folder)')
    .option('--json', 'where it was written, as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  lockstep report\n  lockstep report runs/2026-11-18-start --out start.html\n\nExit code 0: written, 1: no run there, 2: usage error.',
    )
    .action(async (path: string, options: ReportOptions) => {
      const { reportCommand } = await import('../commands/report.js')
      done(await reportCommand(path, options, io))
    })
}
