/** What `lockstep case` is called with. */
import type { Command } from 'commander'
import type { CaseOptions } from '../commands/case.js'
import type { Io } from '../io.js'

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Compares a published training run with our estimate of the same plan on the same cluster, and with the plan our search would choose: Megatron-LM 1.7B to 1T, Llama 3 405B, DeepSeek-V3, MaxText on TPUs, Yi (no published times). Without a name: lists them.',
    )
    .argument('[name]', 'a run of the list')
    .option('--no-best', 'do not search for a better plan')
    .option('--json', 'numbers as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  lockstep case\n  lockstep case llama3-405b-8k\n  lockstep case yi-34b\n\nExit code 0: fine, 1: no such run, 2: usage error.',
    )
    .action(async (name: string | undefined, options: CaseOptions) => {
      const { caseCommand } = await import('../commands/case.js')
      done(await caseCommand(name, options, io))
    })
}
