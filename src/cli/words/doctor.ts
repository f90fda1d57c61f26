/** What `lockstep doctor` is called with. */
import type { Command } from 'commander'
import type { DoctorOptions } from '../commands/doctor.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Reads a run folder, of `train` or of an emitted program, and says what ails the run: what its steps show, where time goes against the prediction, and what to change, the most important first. Quiet about a healthy run.',
    )
    .argument('<run>', 'the run folder (train --out, or that of train.py)')
    .option('--cluster <name or file>', 'what it runs on: a device of the catalog, or a cluster file')
    .option('--json', 'the diagnosis as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep doctor runs/start\n  lockstep doctor /shared/runs/llama --cluster h100\n\nExit code 0: nothing unusual, 1: something is, 2: usage error.',
    )
    .action(async (path: string, options: DoctorOptions) => {
      const { doctorCommand } = await import('../commands/doctor.js')
      done(doctorCommand(path, options, io))
    })
}
