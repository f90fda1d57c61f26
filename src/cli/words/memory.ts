/** What `lockstep memory` is called with. */
import type { Command } from 'commander'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description('Compiles a job and prints the peak memory of every pipeline rank by kind, and the arena they share.')
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--json', 'bytes as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep memory job.yaml\n\nExit code 0: fine, 1: the job has problems, 2: usage error.',
    )
    .action(async (path: string, options: { json?: boolean }) => {
      const { memoryCommand } = await import('../commands/memory.js')
      done(await memoryCommand(path, options, io))
    })
}
