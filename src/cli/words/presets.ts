/** What `lockstep presets` is called with. */
import type { Command } from 'commander'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Lists the models that `model: name` means in a job, with their sizes. `model: { preset: name, layers: 4 }` changes some of them.',
    )
    .option('--json', 'their sizes as JSON')
    .addHelpText('after', '\nExample:\n  lockstep presets\n\nExit code 0: fine, 2: usage error.')
    .action(async (options: { json?: boolean }) => {
      const { presetsCommand } = await import('../commands/presets.js')
      done(await presetsCommand(options, io))
    })
}
