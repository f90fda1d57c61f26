/** lockstep completion: a completion script for a shell, from the table of commands and their options. */
import { Command } from 'commander'
import { globalOptions } from '../global-options.js'
import type { Io } from '../io.js'
import { commands } from '../table.js'
import { type CompletedCommand, completionScript, type Shell } from '../text/completion.js'

export async function completionCommand(shell: Shell, { json }: { readonly json?: boolean }, io: Io): Promise<number> {
  const all = await completed(io)
  io.out(json ? `${JSON.stringify(all, null, 2)}\n` : completionScript(shell, all))
  return 0
}

/** Every command, and those below others as 'bench kernels'. */
async function completed(io: Io): Promise<CompletedCommand[]> {
  const found: CompletedCommand[] = []
  for (const [name, { summary, words }] of Object.entries(commands)) {
    const command = new Command(name).summary(summary)
    const { register } = await words()
    register(command, io, () => {})
    found.push(completedAs([name], command), ...command.commands.map(below => completedAs([name, below.name()], below)))
  }
  return found
}

const everywhere = Object.entries(globalOptions).map(([flag, about]) => ({
  flag,
  about,
  takesValue: false,
  values: [],
}))

const completedAs = (words: readonly string[], command: Command): CompletedCommand => ({
  words,
  about: command.summary() || command.description(),
  below: command.commands.map(below => below.name()),
  values: command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices),
  options: [
    ...command.options.map(({ long, description, required, optional, argChoices = [] }) => ({
      ...{ flag: long ?? '', about: description, takesValue: required || optional, values: argChoices },
    })),
    ...everywhere,
    { flag: '--help', about: 'print help', takesValue: false, values: [] },
  ],
})
