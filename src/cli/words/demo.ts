/** What `lockstep demo` is called with. */
import type { Command } from 'commander'
import type { DemoOptions } from '../commands/demo.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Predicts memory and step time of a small job, trains it on four ranks of this machine, compares both with a single rank, and plans Llama 3 70B on 512 GPUs. `npm start` runs it.',
    )
    .option('--json', 'predictions, measurements and checks as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep demo\n\nExit code 0: memory as planned and losses as on a single rank, 1: not, 2: usage error.',
    )
    .action(async (options: DemoOptions) => {
      const { demoCommand } = await import('../commands/demo.js')
      done(await demoCommand(options, io))
    })
}
