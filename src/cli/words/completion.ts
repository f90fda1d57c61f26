/** What `lockstep completion` is called with. */
import type { Command } from 'commander'
import type { Io } from '../io.js'
import { type Shell, shells } from '../text/completion.js'

const help = `
Examples:
  lockstep completion bash > ~/.local/share/bash-completion/completions/lockstep
  lockstep completion zsh > "\${fpath[1]}/_lockstep"
  lockstep completion fish > ~/.config/fish/completions/lockstep.fish
  source <(lockstep completion bash)     # for this shell only

Exit code 0: printed, 2: usage error.`

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description('Prints a completion script for a shell: commands, options and their values.')
    .addArgument(command.createArgument('<shell>', 'the shell').choices(shells))
    .option('--json', 'the commands, options and values as JSON')
    .addHelpText('after', help)
    .action(async (shell: Shell, options: { readonly json?: boolean }) => {
      const { completionCommand } = await import('../commands/completion.js')
      done(await completionCommand(shell, options, io))
    })
}
