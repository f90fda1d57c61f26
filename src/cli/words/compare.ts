/** What `lockstep compare` is called with. */
import type { Command } from 'commander'
import type { CompareOptions } from '../commands/compare.js'
import type { Io } from '../io.js'
import { positive } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Simulates a training step on the calibrated machine, runs it, and compares the two: step time, time per instruction type, timeline per rank. Several jobs print one line each. Without --cluster it also calibrates the machine, which takes a minute or two.',
    )
    .argument('<jobs...>', 'job files (YAML or JSON)')
    .option(
      '--cluster <file>',
      'cluster file written by lockstep calibrate (default: calibrate now, interleaved with the jobs)',
    )
    .option('--quick', 'few, short measurements: a trial')
    .option('--steps <n>', 'steps to measure per job', positive, 60)
    .option('--svg <file>', 'draw both timelines, one above the other')
    .option('--trace <file>', 'write both timelines as a trace for ui.perfetto.dev or chrome://tracing')
    .option('--json', 'the numbers as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep compare job.yaml --cluster this-machine.yaml --svg both.svg\n\nExit code 0: fine, 1: problems, 2: usage error, 130: interrupted.',
    )
    .action(async (paths: string[], options: CompareOptions) => {
      if (paths.length > 1 && (options.svg ?? options.trace)) command.error('error: --svg and --trace take one job')
      const { compareCommand } = await import('../commands/compare.js')
      done(await compareCommand(paths, options, io))
    })
}
