/** What `lockstep train` is called with. */
import { type Command, Option } from 'commander'
import { kernelNames } from '../../engine/kernel-names.js'
import { flopsDefinition } from '../../model/flops-definition.js'
import type { TrainOptions } from '../commands/train.js'
import type { Io } from '../io.js'
import { requireSaving, withCheckpointOptions } from '../text/checkpoint-options.js'
import { everyOption, faultOption, timeoutOption } from '../text/fault-option.js'
import { integer, port, positive } from '../text/integer.js'

/** Steps kept for `--trace`: enough to look at, and bounded. */
export const stepsTraced = 5

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      `Trains a job on the CPU cores of this machine, one thread per rank. Prints loss, gradient norm, learning rate and tokens/s per step, and writes everything to the run folder. FLOP/s count ${flopsDefinition}. Ctrl-C or SIGTERM stops after the current step, with a checkpoint if checkpoints are on; a second one stops at once. For GPUs, use launch or emit.`,
    )
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--steps <n>', 'number of steps (default: training.steps of the job)', positive)
    .addOption(
      new Option('--kernels <name>', 'which kernels to use').choices(['auto', ...kernelNames]).default('auto' as const),
    )
    .option('--out <folder>', 'the run folder (default: runs/DATE-NAME; runs/latest links to it)')
    .option('--offload-dir <folder>', 'folder for tensors that the plan offloads to disk (default: the run folder)')
    .option('--seed <n>', 'seed of weights, dropout and data order (default: training.seed of the job)', integer)
    .option('--record-routing <file>', 'write the experts selected for each token; data.routing replays them')
    .option('--single-rank <n>', 'repeat the first n steps on a single rank and compare the losses', integer)
  withCheckpointOptions(withSurvival(withMonitors(command)))
    .option('--json', 'one JSON object per step')
    .addHelpText(
      'after',
      '\nExamples:\n  lockstep train job.yaml --steps 200 --trace trace.json\n  lockstep train job.yaml --save saved --save-every 50\n  lockstep train job.yaml --resume saved\n  lockstep train job.yaml --keep-going --save saved --save-every 50\n\nExit code 0: trained, 1: problems (such as a diverged loss), 2: usage error, 130: interrupted,\n143: terminated.',
    )
    .action(async (path: string, options: TrainOptions) => {
      requireSaving(command, options)
      const { trainCommand } = await import('../commands/train.js')
      done(await trainCommand(path, options, io))
    })
}

/** Metrics, traces and predictions. */
const withMonitors = (command: Command): Command =>
  command
    .option('--trace <file>', `write a trace of the last ${stepsTraced} steps for ui.perfetto.dev`)
    .option('--tensorboard <folder>', 'write TensorBoard event files')
    .option(
      '--prometheus <port>',
      'serve Prometheus metrics at http://127.0.0.1:<port>/metrics ([host:]port; 0: any free port)',
      port,
    )
    .option(
      '--cluster <name or file>',
      'cluster file of this machine (default: the last result of `calibrate`): predicts the step, for comparison in health events, doctor and report',
    )
    .option('--sample <prompt>', 'generate a sample from this prompt at each evaluation')
    .option('--no-health', 'no health checks (loss spikes, slow ranks, uneven stages)')

/** Fault tolerance, and injected faults. */
const withSurvival = (command: Command): Command =>
  command
    .addOption(timeoutOption())
    .addOption(everyOption('--hash-every', 'compare parameter replicas bit by bit every n steps'))
    .addOption(everyOption('--replay-every', 'run every n-th step twice and compare the bits before applying it'))
    .addOption(faultOption())
    .option(
      '--keep-going',
      'after a rank failure, resume from the latest good state: an in-memory snapshot, or a checkpoint; three failures without progress end the run',
    )
    .addOption(
      new Option('--snapshot-every <n>', 'steps between in-memory snapshots (default: 1)')
        .argParser(positive)
        .implies({ keepGoing: true }),
    )
    .addOption(
      new Option(
        '--shrink',
        'continue on the remaining ranks with another plan instead of replacing dead ranks; same batch and data',
      ).implies({ keepGoing: true }),
    )
