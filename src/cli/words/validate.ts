/** What `lockstep validate` is called with. */
import type { Command } from 'commander'
import { wrapped } from '../../base/index.js'
import { studies } from '../../validate/studies.js'
import type { ValidateOptions } from '../commands/validate.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'

const help = `
${wrapped(`Studies: ${Object.keys(studies).join(', ')}`).join('\n')}

Example:
  lockstep validate --source layouts bloom --worst 10

Exit code 0: compared, 1: nothing to compare, 2: usage error.`

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Estimates every published training run that reports enough detail: the error per study, the worst rows, the rows left out and why, and how the plan our search would pick compares with the best measured one.',
    )
    .option('--source <study...>', 'only these studies')
    .option('--rows <file...>', 'your own CSV files instead, with the columns of validation/README.md')
    .option('--worst <n>', 'number of worst rows to list', integer, 5)
    .option('--json', 'everything as JSON')
    .addHelpText('after', help)
    .action(async (options: ValidateOptions) => {
      const { validateCommand } = await import('../commands/validate.js')
      done(await validateCommand(options, io))
    })
}
