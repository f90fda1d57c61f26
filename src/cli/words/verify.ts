/** What `lockstep verify` is called with. */
import type { Command } from 'commander'
import type { VerifyOptions } from '../commands/verify.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Checks the compiled program against the laws of SPEC.md, then runs it on the reference interpreter in f64 and compares it with the one-rank program: losses, gradients, parameters and peak memory must agree.',
    )
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--steps <n>', 'training steps to compare', integer, 3)
    .option('--laws-only', 'do not run it')
    .option('--full', 'run the model at its full size, however long that takes')
    .option('--json', 'the verdict as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep verify job.yaml\n\nExit code 0: lawful and equal, 1: the job has problems, a law is broken or a number differs, 2: usage error.',
    )
    .action(async (path: string, options: VerifyOptions) => {
      const { verifyCommand } = await import('../commands/verify.js')
      done(await verifyCommand(path, options, io))
    })
}
