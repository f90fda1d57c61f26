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
      .description(
        'Simulates a training step on a cluster: step time, MFU, where the time goes, and with --tokens the days and dollars of a run.',
      )
      .argument('<job>', 'job file (YAML or JSON; - for standard input)')
      .requiredOption('--cluster <name>', 'a device (lockstep cluster list) or a cluster file')
      .option('--devices <n>', 'number of devices (default: the ranks of the plan)', size)
      .option('--slow <rank:factor>', 'a rank (or first-last) slowed down by a factor', slowdowns)
      .option('--jitter <share>', 'random variation of each call, such as 0.02', share)
      .option('--seed <n>', 'jitter seed', integer, 1)
      .option('--tokens <count>', 'training tokens, such as 15T: adds days and dollars', count)
      .option('--price <dollars>', "price per device-hour (default: the catalog's)", positive)
      .option('--mtbf <time>', 'mean time between failures per device, such as 50000h: adds goodput', someTime)
      .addOption(timeOption('--checkpoint <time>', 'pause per checkpoint', '60s'))
      .addOption(timeOption('--restart <time>', 'time from a failure until training resumes', '10min'))
      .option('--checkpoint-every <time>', 'checkpoint interval (default: optimal)', someTime)
      .option('--measured-step <time>', 'the measured step time of this job: all estimates are scaled to it', someTime)
      .option('--scale <factor>', 'factor for all times, as --measured-step found for another plan', positive)
      .addOption(
        new Option('--multiply <precision>', 'matmul precision, where it differs from the storage precision').choices([
          ...precisions,
        ]),
      )
      .option('--contention <share>', 'slowdown of compute while a collective runs (default: 0.12)', share)
      .option('--trace <file>', 'write a trace of the pipeline for ui.perfetto.dev or chrome://tracing')
      .option('--svg <file>', 'draw the timeline of the pipeline'),
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
