/** What `lockstep studio` is called with. */
import { type Command, Option } from 'commander'
import type { StudioCommandOptions } from '../commands/studio.js'
import type { Io } from '../io.js'
import { portNumber } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Opens the studio in a browser on this machine; the link contains an access token. Jobs run here on native kernels, at most two at once, each in its own process and run folder. They read data only below the current folder. Closing the page ends no run; Ctrl-C ends all of them, each after its step.',
    )
    .argument('[job]', 'job file to open')
    .addOption(new Option('--port <n>', 'port (0: any free port)').argParser(portNumber).default(0, '0'))
    .option('--no-open', 'do not open a browser (never opened without a terminal or a display)')
    .option('--json', 'print { url, port, token } as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  lockstep studio\n  lockstep studio examples/jobs/start.yaml --port 8080\n  lockstep studio --no-open --json\n\nExit code 0: ended by Ctrl-C, 1: problems, 2: usage error, 143: terminated.',
    )
    .action(async (path: string | undefined, options: StudioCommandOptions) => {
      const { studioCommand } = await import('../commands/studio.js')
      done(await studioCommand(path, options, io))
    })
}
