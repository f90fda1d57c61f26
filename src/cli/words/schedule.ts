/** What `lockstep schedule` is called with. */
import type { Command } from 'commander'
import { scheduleNames, schedules } from '../../schedule/schedules.js'
import type { ScheduleOptions } from '../commands/schedule.js'
import type { Io } from '../io.js'

export const formats = ['csv', 'text', 'svg'] as const
export type Format = (typeof formats)[number]

/** The schedule that is searched for; the others follow a rule. */
export const auto = 'zb-auto'

const help = `
Schedules:
${scheduleNames.map(name => `  ${name.padEnd(15)} ${schedules[name].describe}`).join('\n')}
  ${auto.padEnd(15)} zero bubble, optimized for --cost within --limit; its CSV can be a plan's schedule

Examples:
  lockstep schedule 1f1b --pp 4 --microbatches 8
  lockstep schedule zb-v --pp 4 --microbatches 8 --format svg --out zb-v.svg
  lockstep schedule interleaved --pp 4 --chunks 2 --microbatches 8 --format csv --comms
  lockstep schedule zb-auto --pp 8 --microbatches 24 --cost F=2,I=2,W=1 --format csv --out zb.csv
  lockstep schedule --file mine.csv --cost F=1,I=1,W=1,C=0 --json

Exit code 0: fine, 1: the schedule has problems, 2: usage error.`

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description('Generates, checks, times and draws a pipeline schedule.')
    .argument('[name]', 'schedule')
    .option('--pp <ranks>', 'pipeline parallel size')
    .option('--microbatches <count>', 'microbatches per step')
    .option('--chunks <count>', 'virtual stages per rank (default: what the schedule needs)')
    .option('--format <form>', `${formats.join(', ')} (default: text)`)
    .option('--comms', 'with P2P sends and receives, parameter all-gathers and gradient reductions')
    .option(
      '--cost <costs>',
      'time of forward (F), input gradient (I), weight gradient (W) and transfer (C), as F=1,I=1,W=1,C=0; or one per rank, separated by ;',
    )
    .option('--limit <amount>', 'zb-auto: memory limit per rank, in activations (default: pp)')
    .option(
      '--held <amounts>',
      'zb-auto: memory held until the input gradient (I) and the weight gradient (W), as I=1,W=1',
    )
    .option(
      '--goal <goal>',
      'zb-auto: minimize makespan (the full step, default) or span (first to last task of a rank)',
    )
    .option('--json', 'rows and timing as JSON; with --cost only the timing (zb-auto: both)')
    .option('--file <csv>', "a schedule in PyTorch's CSV format instead of a name")
    .option('--out <file>', 'write to a file (default: print)')
    .addHelpText('after', help)
    .action(async (name: string | undefined, options: Omit<ScheduleOptions, 'name'>) => {
      const { scheduleCommand } = await import('../commands/schedule.js')
      done(await scheduleCommand({ ...options, name }, io))
    })
}
