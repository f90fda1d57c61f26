/** Options of the commands that take configs of other frameworks in place of a job. */
import { type Command, Option } from 'commander'
import { size } from '../text/integer.js'
import { pair } from '../text/pairs.js'

const devices = () =>
  new Option(
    '--devices <n>',
    'number of devices, for a config of another framework that does not specify it',
  ).argParser(size)

/** Where a command has `--devices` of its own, that serves for the config too. */
export function withForeign(command: Command): Command {
  if (!command.options.some(({ long }) => long === '--devices')) command.addOption(devices())
  return command.option('--set <name=value>', 'override a variable in a launch script of another framework', pair)
}
