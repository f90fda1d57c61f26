/** What `lockstep schedule` is called with. */
import type { Command } from 'commander'
import { scheduleNames, schedules } from '../../schedule/schedules.js'
import type { ScheduleOptions } from '../commands/schedule.js'
import type { Io } from '../io.js'

export const formats = ['csv', 'text', 'svg'] as const
export type Format = (typeof formats)[number]

/** The order that is searched for, beside those with a rule. */
export const auto = 'zb-auto'

const help = `
Schedules:
${scheduleNames.map(name => `  ${name.padEnd(15)} ${schedules[name].describe}`).join('\n')}
  ${auto.padEnd(15)} zero bubble, ordered for --cost within --limit; its csv is a plan's schedule

Examples:
  lockstep schedule 1f1b --pp 4 --microbatches 8
  lockstep schedule zb-v --pp 4 --microbatches 8 --format svg --out zb-v.svg
  lockstep schedule interleaved --pp 4 --chunks 2 --microbatches 8 --format csv --comms
  lockstep schedule zb-auto --pp 8 --microbatches 24 --cost F=18.5,I=18.1,W=9.3,C=0.6 --limit 16 --format csv --out zb.csv
  lockstep schedule --file mine.csv --cost F=1,I=1,W=1,C=0 --json

Exit code 0: fine, 1: the schedule has problems, 2: usage error.`

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description('Makes, checks, times and draws a pipeline schedule.')
    .argument('[name]', 'which schedule')
    .option('--pp <ranks>', 'pipeline ranks')
    .option('--microbatches <count>', 'microbatches of a step')
    .option('--chunks <count>', 'chunks of layers on each rank (default: what the schedule needs)')
    .option('--format <form>', `${formats.join(', ')} (default: text)`)
    .option('--comms', 'with messages, parameter gathers and gradient reductions')
    .option(
      '--cost <costs>',
      'time of each task, and of a transfer between ranks, as F=1,I=1,W=1,C=0; or one for each rank, separated by ;',
    )
    .option('--limit <amount>', 'zb-auto: the most a rank may hold (default: as many activations as there are ranks)')
    .option(
      '--held <amounts>',
      'zb-auto: what an activation holds before its input gradient and before its weight gradient, as I=1,W=1',
    )
    .option(
      '--goal <goal>',
      'zb-auto: makespan, the whole step (default), or span, from the first task of a rank to its last',
    )
    .option('--json', 'rows and timing as JSON; with --cost the timing only (zb-auto: both)')
    .option('--file <csv>', "a schedule in PyTorch's CSV notation instead of a name")
    .option('--out <file>', 'write there instead of printing')
    .addHelpText('after', help)
    .action(async (name: string | undefined, options: Omit<ScheduleOptions, 'name'>) => {
      const { scheduleCommand } = await import('../commands/schedule.js')
      done(await scheduleCommand({ ...options, name }, io))
    })
}
