/** What `lockstep compare` is called with. */
import type { Command } from 'commander'
import type { CompareOptions } from '../commands/compare.js'
import type { Io } from '../io.js'
import { positive } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Simulates a step of a job on the calibrated machine, runs it on the engine, and shows both: the step, each kind of instruction, every rank. For several jobs it prints one line each. Measuring the machine as well takes a minute or two.',
    )
    .argument('<jobs...>', 'job files (YAML or JSON)')
    .option(
      '--cluster <file>',
      'this machine, as lockstep calibrate wrote it (default: measured now, interleaved with the jobs)',
    )
    .option('--quick', 'few and short measurements of the machine: to try it')
    .option('--steps <n>', 'steps to measure of each job', positive, 60)
    .option('--svg <file>', 'draw both on one timeline')
    .option('--trace <file>', 'both for chrome://tracing or ui.perfetto.dev: measured ranks after the simulated ones')
    .option('--json', 'the numbers as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep compare job.yaml --cluster this-machine.yaml --svg both.svg\n\nExit code 0: fine, 1: problems, 2: usage error, 130: interrupted.',
    )
    .action(async (paths: string[], options: CompareOptions) => {
      if (paths.length > 1 && (options.svg ?? options.trace))
        command.error('error: a timeline is of one job: give one job with --svg and --trace')
      const { compareCommand } = await import('../commands/compare.js')
      done(await compareCommand(paths, options, io))
    })
}
