/** What `lockstep train` is called with. */
import { type Command, Option } from 'commander'
import { kernelNames } from '../../engine/kernel-names.js'
import { flopsDefinition } from '../../model/flops-definition.js'
import type { TrainOptions } from '../commands/train.js'
import type { Io } from '../io.js'
import { requireSaving, withCheckpointOptions } from '../text/checkpoint-options.js'
import { everyOption, faultOption, timeoutOption } from '../text/fault-option.js'
import { integer, port, positive } from '../text/integer.js'

/** Steps whose spans are kept: enough to look at, and bounded. */
export const stepsTraced = 5

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      `Trains a job: loss, gradient norm, tokens/s and FLOP/s (${flopsDefinition}) of every step, on the screen and in the run folder. Ctrl-C, SIGTERM or a terminal that is closed stops after the step, with a checkpoint where checkpoints are written; a second one stops at once.`,
    )
    .argument('[job]', 'job file (YAML or JSON; - for standard input)')
    .option('--steps <n>', 'number of steps, instead of the job’s', positive)
    .addOption(
      new Option('--kernels <name>', 'the kernels that compute')
        .choices(['auto', ...kernelNames])
        .default('auto' as const),
    )
    .option('--out <folder>', 'the run folder (default: a new one below runs/)')
    .option(
      '--offload-dir <folder>',
      'whose disk keeps what the plan offloads to one (default: that of the run folder)',
    )
    .option('--seed <n>', 'seed of weights, masks and data, instead of the job’s', integer)
    .option('--record-choices <file>', 'the experts that tokens choose, as data.choices repeats them')
    .option('--beside <n>', 'repeat the first n steps on one rank and compare the losses', integer)
  withCheckpointOptions(withSurvival(withMonitors(command)))
    .option('--json', 'one JSON object a step')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep train job.yaml --steps 200 --spans trace.json\n  lockstep train job.yaml --save saved --save-every 50\n  lockstep train job.yaml --resume saved\n  lockstep train job.yaml --keep-going --save saved --save-every 50\n\nExit code 0: trained, 1: problems (a loss that diverged is one), 2: usage error, 130: interrupted, 143: terminated.',
    )
    .action(async (path: string | undefined, options: TrainOptions) => {
      if (path === undefined) command.error('error: <job> is missing: a job file; `lockstep demo` trains a small one')
      requireSaving(command, options)
      const { trainCommand } = await import('../commands/train.js')
      done(await trainCommand(path, options, io))
    })
}

/** What a run tells of itself, and what it is compared with. */
const withMonitors = (command: Command): Command =>
  command
    .option('--spans <file>', `the last ${stepsTraced} steps as a trace for ui.perfetto.dev`)
    .option('--tensorboard <folder>', 'event files for TensorBoard, written as the run goes on')
    .option(
      '--prometheus <port>',
      'metrics for Prometheus at http://127.0.0.1:<port>/metrics ([host:]port; 0: a free one)',
      port,
    )
    .option(
      '--cluster <name or file>',
      'what it runs on, as `calibrate` wrote it (default: this machine, as `calibrate` last found it): the step is predicted, and health, doctor and report compare with that',
    )
    .option('--sample <prompt>', 'at each evaluation, a text of the model that goes on from this')
    .option('--no-health', 'do not look for what is unusual: spikes, slow ranks, uneven stages')

/** What is to happen when something goes wrong, and what goes wrong on purpose. */
const withSurvival = (command: Command): Command =>
  command
    .addOption(timeoutOption())
    .addOption(everyOption('--hash-every', 'compare the copies of parameters bit by bit after every n steps'))
    .addOption(everyOption('--replay-every', 'run every n-th step twice before it is taken, and compare all bits'))
    .addOption(faultOption())
    .option(
      '--keep-going',
      'after a failure of ranks go on from the newest good state: a copy in the memory of ranks, or a checkpoint; three failures without a step of progress end the run',
    )
    .addOption(
      new Option('--snapshot-every <n>', 'steps between two copies in the memory of ranks (default: 1)')
        .argParser(positive)
        .implies({ keepGoing: true }),
    )
    .addOption(
      new Option(
        '--shrink',
        'replace no rank that died: go on with a plan for those that are left, with the same batch and data',
      ).implies({ keepGoing: true }),
    )
