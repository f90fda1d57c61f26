/** What `lockstep case` is called with. */
import type { Command } from 'commander'
import type { CaseOptions } from '../commands/case.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Runs that were published, beside what our prices say of the same plan on the same cluster, and beside the plan that we would choose there: Megatron-LM from 1.7B to 1T, Llama 3 405B, DeepSeek-V3, MaxText on TPUs; Yi, of which no times are published. Without a name, their list.',
    )
    .argument('[name]', 'a case of the list')
    .option('--no-best', 'do not search for the plan we would choose')
    .option('--json', 'numbers as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  lockstep case\n  lockstep case llama3-405b-8k\n  lockstep case yi-34b\n\nExit code 0: fine, 1: there is no such case, 2: usage error.',
    )
    .action(async (name: string | undefined, options: CaseOptions) => {
      const { caseCommand } = await import('../commands/case.js')
      done(await caseCommand(name, options, io))
    })
}
