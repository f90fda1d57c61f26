/** What `lockstep memory` is called with. */
import type { Command } from 'commander'
import type { MemoryOptions } from '../commands/memory.js'
import type { Io } from '../io.js'
import { withForeign } from './foreign.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  withForeign(
    command
      .description(
        'Compiles a job and prints the exact peak memory of each pipeline stage by category, before anything runs.',
      )
      .argument('<job>', 'job file (YAML or JSON; - for standard input)')
      .option('--why', 'by tensor and layer, next to the analytic formulas of the literature'),
  )
    .option('--json', 'bytes as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  lockstep memory job.yaml\n  lockstep memory job.yaml --why\n\nExit code 0: fine, 1: the job has problems, 2: usage error.',
    )
    .action(async (path: string, options: MemoryOptions) => {
      const { memoryCommand } = await import('../commands/memory.js')
      done(await memoryCommand(path, options, io))
    })
}
