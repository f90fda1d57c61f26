/** What `lockstep check` is called with. */
import type { Command } from 'commander'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Reports every problem in a job file, and in the data it names, with line, equation and suggestion. If there are none, prints a summary of the job.',
    )
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--json', 'problems and summary as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep check job.yaml\n\nExit code 0: no errors (there may be warnings), 1: errors, 2: usage error.',
    )
    .action(async (path: string, options: { json?: boolean }) => {
      const { checkCommand } = await import('../commands/check.js')
      done(await checkCommand(path, options, io))
    })
}
