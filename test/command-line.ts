/** Lines of a terminal as pages of the studio show them: `echo '{…}' | lockstep simulate - --cluster h100`, run in this process. */
import { readFileSync } from 'node:fs'
import { lockstep } from './memory-io.js'

/** Words of a command line: one in quotes is one word. */
const words = (line: string): string[] =>
  [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain)

/** Files that commands name. */
const beside = { 'examples/jobs/llama3-405b.yaml': readFileSync('examples/jobs/llama3-405b.yaml', 'utf8') }

export function runCommand(command: string) {
  const [, stdin, line] = command.match(/^(?:echo '([^']*)' \| )?lockstep (.*)$/)!
  return lockstep(words(line), { ...beside, ...(stdin === undefined ? {} : { '-': stdin }) })
}
