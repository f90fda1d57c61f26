/** What `lockstep emit` is called with. */
import type { Command } from 'commander'
import type { EmitOptions } from '../commands/emit.js'
import type { Io } from '../io.js'
import { adaptersHelp } from '../text/checkpoint-options.js'
import { integer, ranksOf, size } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Writes a folder that trains the job with PyTorch and needs nothing of lockstep: readable code per pipeline stage, the schedule as data, a small runtime, launchers for torchrun, Slurm and Kubernetes, and a README.',
    )
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .requiredOption('--out <folder>', 'where to write')
    .option('--steps <n>', 'number of steps, instead of the job’s', integer)
    .option('--seed <n>', 'seed of weights, masks and data, instead of the job’s', integer)
    .option(
      '--init <checkpoint>',
      'start from the weights of a checkpoint or a Hugging Face folder, which are copied into the folder',
    )
    .option('--adapters <folder>', adaptersHelp)
    .option(
      '--also <ranks>',
      'plans for other numbers of ranks too, such as 4,6 or 4..8: train.py uses the one that matches',
      ranksOf,
    )
    .option('--cluster <name>', 'predict the time of a step on it: a device of the catalog, or a cluster file')
    .option('--devices <n>', 'of the cluster (default: as many as the plan has ranks)', size)
    .option('--schedule-csv', 'only the schedule, as the CSV of PyTorch’s pipelining (schedule.csv)')
    .option('--force', 'overwrite the program of another job in the folder')
    .option('--json', 'what was written, as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep emit job.yaml --out run\n  cd run && sh launch.sh              (ranks of one node; --help lists the options)\n  cd run && sbatch slurm.sbatch       (several nodes)\n\nExit code 0: written, 1: the job has problems, 2: usage error.',
    )
    .action(async (path: string, options: EmitOptions) => {
      const { emitCommand } = await import('../commands/emit.js')
      done(await emitCommand(path, options, io))
    })
}
