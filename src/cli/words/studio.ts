/** What `lockstep studio` is called with. */
import { type Command, Option } from 'commander'
import type { StudioCommandOptions } from '../commands/studio.js'
import type { Io } from '../io.js'
import { portNumber } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Serves the studio to a browser of this machine only: the link it prints holds a token. Jobs run here on native kernels, two at once, each in a process and a run folder of its own; they read data below the folder that the studio was started in. Closing the page ends no run; Ctrl-C ends all, each after its step.',
    )
    .argument('[job]', 'a job file for the page to begin with')
    .addOption(new Option('--port <n>', 'the port (0: a free one)').argParser(portNumber).default(0, '0'))
    .option('--no-open', 'do not open a browser (none is opened without a terminal, or a screen)')
    .option('--json', 'print { url, port, token } as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep studio\n  lockstep studio examples/jobs/start.yaml --port 8080\n  lockstep studio --no-open --json\n\nExit code 0: ended by Ctrl-C, 1: problems, 2: usage error, 143: terminated.',
    )
    .action(async (path: string | undefined, options: StudioCommandOptions) => {
      const { studioCommand } = await import('../commands/studio.js')
      done(await studioCommand(path, options, io))
    })
}
