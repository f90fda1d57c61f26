/** What `lockstep rehearse` is called with. */
import type { Command } from 'commander'
import type { RehearseOptions } from '../commands/rehearse.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Shrinks a job until this machine can run it, shows that it is still the same program (the same segments with the same instructions and collectives), checks it against the laws and compares a run of it with one rank.',
    )
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .option('--steps <n>', 'training steps to compare', integer, 2)
    .option('--json', 'what was shrunk, the tally and the verdict as JSON')
    .addHelpText(
      'after',
      '\nExample:\n  lockstep rehearse examples/jobs/llama3-405b.yaml\n\nExit code 0: the same program, lawful and equal to one rank; 1: problems, or one of these does not hold; 2: usage error.',
    )
    .action(async (path: string, options: RehearseOptions) => {
      const { rehearseCommand } = await import('../commands/rehearse.js')
      done(await rehearseCommand(path, options, io))
    })
}
