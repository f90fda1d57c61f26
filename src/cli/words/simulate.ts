/** What `lockstep simulate` is called with. */
import { type Command, Option } from 'commander'
import { precisions } from '../../base/index.js'
import type { SimulateOptions } from '../commands/simulate.js'
import type { Io } from '../io.js'
import { count, duration, positive, share, slowdowns, someTime } from '../text/amounts.js'
import { integer, size } from '../text/integer.js'
import { withForeign } from './foreign.js'

const help = `
Examples:
  lockstep simulate job.yaml --cluster h100
  lockstep simulate job.yaml --cluster h100 --slow 17:1.3 --jitter 0.02 --svg step.svg
  lockstep simulate job.yaml --cluster h100 --tokens 15T --price 2.5 --mtbf 50000h --checkpoint 60s
  lockstep simulate job.yaml --cluster mine.yaml --measured-step 4.2s

Exit code 0: fine, 1: the job or the cluster has problems, 2: usage error.`

export function register(command: Command, io: Io, done: (code: number) => void): void {
  withForeign(
    command
      .description('Simulates a step of a job on a cluster: how long it takes, where the time goes, what a run costs.')
      .argument('<job>', 'job file (YAML or JSON; - for standard input)')
      .requiredOption('--cluster <name>', 'a device of the catalog (lockstep cluster list), or a cluster file')
      .option('--devices <n>', 'how many there are (default: as many as the plan has ranks)', size)
      .option('--slow <rank:factor>', 'a rank (or first-last) that is slower by this factor', slowdowns)
      .option('--jitter <share>', 'random spread of the time of every call, such as 0.02', share)
      .option('--seed <n>', 'seed of the jitter', integer, 1)
      .option('--tokens <count>', 'what the run trains on, such as 15T: days and money', count)
      .option('--price <dollars>', "for an hour of one device (default: the catalog's)", positive)
      .option('--mtbf <time>', 'mean time between failures of one device, such as 50000h: goodput', someTime)
      .addOption(timeOption('--checkpoint <time>', 'how long training pauses for a checkpoint', '60s'))
      .addOption(timeOption('--restart <time>', 'from a failure until training resumes', '10min'))
      .option('--checkpoint-every <time>', 'time between checkpoints (default: the best)', someTime)
      .option('--measured-step <time>', 'a step of this job as it was measured: all prices are scaled to it', someTime)
      .option('--scale <factor>', 'factor for all prices, as --measured-step found for another plan', positive)
      .addOption(
        new Option('--multiply <precision>', 'precision of products, where it is not that of what is stored').choices([
          ...precisions,
        ]),
      )
      .option('--contention <share>', 'what compute loses while a collective runs beside it (default: 0.12)', share)
      .option('--trace <file>', 'write the spans of a pipeline for chrome://tracing or ui.perfetto.dev')
      .option('--svg <file>', 'draw the timeline of a pipeline'),
  )
    .option('--json', 'everything as JSON')
    .addHelpText('after', help)
    .action(async (path: string, options: SimulateOptions) => {
      const { simulateCommand } = await import('../commands/simulate.js')
      done(await simulateCommand(path, options, io))
    })
}

const timeOption = (flags: string, about: string, usual: string): Option =>
  new Option(flags, about).argParser(duration).default(duration(usual), usual)
