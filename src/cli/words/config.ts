/** What `lockstep config` is called with. */
import type { Command } from 'commander'
import type { ConfigOptions } from '../commands/config.js'
import type { Io } from '../io.js'

const files = ['job', 'cluster'] as const

export function register(command: Command, io: Io, done: (code: number) => void): void {
  command
    .description(
      'Lists the fields of a job or cluster file with meaning, allowed values, default and an example. --schema prints the JSON schema, which editors use for completion and checks.',
    )
    .addArgument(command.createArgument('[file]', 'job (the default) or cluster').choices(files))
    .argument('[field]', 'only this field and the fields inside it, such as plan or training.optimizer')
    .option('--schema', 'the JSON schema')
    .option('--json', 'fields as JSON')
    .addHelpText(
      'after',
      [
        '\nExamples:',
        '  lockstep config job plan',
        '  lockstep config cluster',
        '  lockstep config job --schema > job.schema.json',
        '\nEditors with the YAML language server use the schema if the job starts with',
        '  # yaml-language-server: $schema=./job.schema.json',
        '\nExit code 0: fine, 1: no such field, 2: usage error.',
      ].join('\n'),
    )
    .action(async (file: (typeof files)[number] | undefined, field: string | undefined, options: ConfigOptions) => {
      const { configCommand } = await import('../commands/config.js')
      done(configCommand({ file: file ?? 'job', ...(field !== undefined && { field }) }, options, io))
    })
}
