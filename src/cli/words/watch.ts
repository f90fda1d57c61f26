/** What `lockstep watch` is called with. */
import { type Command, Option } from 'commander'
import type { WatchOptions } from '../commands/watch.js'
import { latestRun } from '../files/latest-run.js'
import type { Io } from '../io.js'
import { duration } from '../text/amounts.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Follows a run live: loss, throughput, events, checkpoints, and the time since the last step. Reads only the run folder, so the run may be on another machine (shared disk), from `train`, `launch` or a generated program. Ends with the run, or at Ctrl-C.',
    )
    .argument('[run]', 'the run folder, or its metrics.jsonl', latestRun)
    .option('--once', 'show the current state and exit')
    .addOption(new Option('--every <time>', 'refresh interval').argParser(duration).default(duration('1s'), '1s'))
    .option('--json', 'one JSON object per line, whenever something changes')
    .addHelpText(
      'after',
      '\nExamples:\n  lockstep watch\n  lockstep watch /shared/runs/llama --every 10s\n  lockstep watch runs/latest --once --json\n\nExit code 0: shown, or the run is done, 1: no such run, 2: usage error, 130: interrupted.',
    )
    .action(async (path: string, options: WatchOptions) => {
      const { watchCommand } = await import('../commands/watch.js')
      done(await watchCommand(path, options, io))
    })
}
