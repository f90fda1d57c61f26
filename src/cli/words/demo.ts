/** What `lockstep demo` is called with. */
import type { Command } from 'commander'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Compiles a small job over dp, tp and pp, shows its schedule and memory, and compares a run of it with one rank.',
    )
    .option('--json', 'the verdict as JSON')
    .addHelpText('after', '\nExample:\n  lockstep demo\n\nExit code 0: lawful and equal, 1: not, 2: usage error.')
    .action(async (options: { json?: boolean }) => {
      const { demoCommand } = await import('../commands/demo.js')
      done(await demoCommand(options, io))
    })
}
