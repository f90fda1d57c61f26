/** What `lockstep verify` is called with. */
import type { Command } from 'commander'
import type { VerifyOptions } from '../commands/verify.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Checks the compiled program statically (deadlocks, races, incomplete reductions; SPEC.md lists the rules), then runs it in f64 on the reference interpreter and compares losses, gradients, parameters and peak memory with a single rank.',
    )
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--steps <n>', 'training steps to compare', integer, 3)
    .option('--static', 'only the static checks: run nothing')
    .option('--full', 'run the model at full size (may take long)')
    .option('--json', 'the result as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep verify job.yaml\n\nExit code 0: all checks passed, 1: a check failed, or the job has problems, 2: usage error.',
    )
    .action(async (path: string, options: VerifyOptions) => {
      const { verifyCommand } = await import('../commands/verify.js')
      done(await verifyCommand(path, options, io))
    })
}
