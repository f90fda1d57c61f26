/** The job file of the current folder, for commands that are given none. */
import type { Command } from 'commander'
import { either } from '../../base/text.js'
import type { Io } from '../io.js'

const names = ['job.yaml', 'job.yml', 'job.json']

/** Options that take the place of a job file, in commands where it is optional. */
const instead = ['--model']

export interface Found {
  readonly job?: string
  /** Why there is none: several, or no such file. */
  readonly problem?: string
}

/** undefined: the command needs no job file, or `given` options stand for it. */
export function foundJob(command: Command, given: readonly string[], io: Io): Found | undefined {
  const job = command.registeredArguments[0]
  if (job?.name() !== 'job') return undefined
  const others = command.options.flatMap(({ long }) => (long && instead.includes(long) ? [long] : []))
  if (!job.required && (others.length === 0 || others.some(long => given.includes(long)))) return undefined
  const here = names.filter(name => io.kindOf(name) === 'file')
  if (here.length === 1) return { job: here[0] }
  const orElse = others.map(long => `, or ${long}`).join('')
  return {
    problem:
      here.length > 1
        ? `this folder has several jobs, ${either(here, 'and')}: name one`
        : `<job> is missing: no ${either(names)} here; \`lockstep init\` writes one${orElse}`,
  }
}
