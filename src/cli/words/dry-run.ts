/** What `lockstep dry-run` is called with. */
import type { Command } from 'commander'
import type { DryRunOptions } from '../commands/dry-run.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Scales a job down until this machine can run it, shows that the program structure is unchanged (the same functions, instructions and collectives), checks the program statically, runs it and compares it with one rank.',
    )
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--steps <n>', 'training steps to compare', integer, 2)
    .option('--json', 'the changes, the functions and the result as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep dry-run examples/jobs/llama3-405b.yaml\n\nExit code 0: all checks passed, 1: a check failed, or the job has problems, 2: usage error.',
    )
    .action(async (path: string, options: DryRunOptions) => {
      const { dryRunCommand } = await import('../commands/dry-run.js')
      done(await dryRunCommand(path, options, io))
    })
}
