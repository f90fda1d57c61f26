/** What `lockstep validate` is called with. */
import type { Command } from 'commander'
import { studies } from '../../validate/studies.js'
import type { ValidateOptions } from '../commands/validate.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'

const help = `
Studies: ${Object.keys(studies).join(', ')}

Example:
  lockstep validate --source layouts bloom --worst 10

Exit code 0: compared, 1: nothing to compare, 2: usage error.`

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Prices every published training run that reports enough to be priced: the error of each study, the worst rows, what was set aside and why, and how much slower the plan we would choose was than the best one measured.',
    )
    .option('--source <study...>', 'these studies only')
    .option('--rows <file...>', 'rows of your own instead, with the columns of validation/README.md')
    .option('--worst <n>', 'how many of the worst rows to list', integer, 5)
    .option('--json', 'everything as JSON')
    .addHelpText('after', help)
    .action(async (options: ValidateOptions) => {
      const { validateCommand } = await import('../commands/validate.js')
      done(await validateCommand(options, io))
    })
}
