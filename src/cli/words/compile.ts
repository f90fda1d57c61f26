/** What `lockstep compile` is called with. */
import type { Command } from 'commander'
import type { CompileOptions } from '../commands/compile.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description('Compiles a job into one program for every rank and says what it consists of; --text prints it.')
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--rank <rank>', 'look at one rank', integer)
    .option('--text', 'print the program in its text form (of one rank, with --rank)')
    .option('--out <file>', 'write the text form of the whole program to a file')
    .option('--json', 'the summary as JSON, with --text the text in it')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep compile job.yaml\n  lockstep compile job.yaml --rank 3 --text\n\nExit code 0: fine, 1: the job has problems, 2: usage error.',
    )
    .action(async (path: string, options: CompileOptions) => {
      const { compileCommand } = await import('../commands/compile.js')
      done(await compileCommand(path, options, io, message => command.error(message, { exitCode: 2 })))
    })
}
