/** What `lockstep compile` is called with. */
import type { Command } from 'commander'
import type { CompileOptions } from '../commands/compile.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description('Compiles a job into one program per rank and prints a summary. --text prints the program.')
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--rank <rank>', 'only this rank', integer)
    .option('--text', 'print the program as text')
    .option('--out <file>', 'write the full program as text to a file')
    .option('--json', 'the summary as JSON; with --text it contains the program')
    .addHelpText(
      'after',
      '\nExamples:\n  lockstep compile job.yaml\n  lockstep compile job.yaml --rank 3 --text\n\nExit code 0: fine, 1: the job has problems, 2: usage error.',
    )
    .action(async (path: string, options: CompileOptions) => {
      const { compileCommand } = await import('../commands/compile.js')
      done(await compileCommand(path, options, io, message => command.error(message, { exitCode: 2 })))
    })
}
