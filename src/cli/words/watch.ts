/** What `lockstep watch` is called with. */
import { type Command, Option } from 'commander'
import type { WatchOptions } from '../commands/watch.js'
import type { Io } from '../io.js'
import { duration } from '../text/amounts.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Shows a run live: loss, rates, events, checkpoints, and how long it has been silent. It reads the run folder alone, so the run may be anywhere, of `train` or of an emitted program; lines that are cut, runs that restart and files that begin anew do not disturb it. Ends with the run, or at Ctrl-C.',
    )
    .argument('<run>', 'the run folder (train --out, or that of train.py), or its metrics.jsonl')
    .option('--once', 'show it as it is now, and end')
    .addOption(new Option('--every <time>', 'time between two looks').argParser(duration).default(duration('1s'), '1s'))
    .option('--json', 'an object a line, whenever something is new')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep watch runs/start\n  lockstep watch /shared/runs/llama --every 10s\n  lockstep watch runs/start --once --json\n\nExit code 0: shown, or the run is done, 1: no run there, 2: usage error, 130: interrupted.',
    )
    .action(async (path: string, options: WatchOptions) => {
      const { watchCommand } = await import('../commands/watch.js')
      done(await watchCommand(path, options, io))
    })
}
