/** What `lockstep doctor` is called with. */
import type { Command } from 'commander'
import type { DoctorOptions } from '../commands/doctor.js'
import { latestRun } from '../files/latest-run.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Diagnoses a run from its folder (of `train`, `launch` or a generated program) and suggests fixes, the most important first: failures, loss and gradient anomalies, time spent against the prediction.',
    )
    .argument('[run]', 'the run folder', latestRun)
    .option('--cluster <name or file>', 'the cluster it runs on: a device of the catalog, or a cluster file')
    .option('--json', 'the diagnosis as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  lockstep doctor\n  lockstep doctor /shared/runs/llama --cluster h100\n\nExit code 0: healthy, or warnings only, 1: errors found, or no run there, 2: usage error.',
    )
    .action(async (path: string, options: DoctorOptions) => {
      const { doctorCommand } = await import('../commands/doctor.js')
      done(doctorCommand(path, options, io))
    })
}
