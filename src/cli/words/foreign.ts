/** What commands that take configurations of other frameworks as jobs share. */
import { type Command, Option } from 'commander'
import { positive } from '../text/integer.js'
import { pair } from '../text/pairs.js'

/** What is said beside such a file. */
export const withForeign = (command: Command): Command =>
  command
    .addOption(
      new Option('--world <n>', 'ranks, where the file is of another framework and does not say how many').argParser(
        positive,
      ),
    )
    .option('--set <name=value>', 'a variable of a script of another framework, whatever it sets it to', pair)
