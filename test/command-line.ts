/** Lines of a terminal as pages of the studio show them: `echo '{…}' | lockstep simulate - --cluster h100`, run in this process. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { lockstep } from './memory-io.js'

/** Words of a command line: one in quotes is one word. */
const words = (line: string): string[] =>
  [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain)

/** Files that commands name. */
const contents = (paths: readonly string[]) => Object.fromEntries(paths.map(path => [path, readFileSync(path, 'utf8')]))
const published = ['sc21-table1.csv', 'llama3.csv', 'megatron-moe.csv'].map(name => resolve('validation', name))
const beside = contents(['examples/jobs/llama3-405b.yaml', ...published])

export function runCommand(command: string) {
  const [, stdin, line] = command.match(/^(?:echo '([^']*)' \| )?lockstep (.*)$/)!
  return lockstep(words(line), { ...beside, ...(stdin === undefined ? {} : { '-': stdin }) })
}
