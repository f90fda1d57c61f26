/** What `lockstep scale` is called with. */
import { type Command, InvalidArgumentError } from 'commander'
import { parseCount } from '../../base/index.js'
import type { ScaleOptions } from '../commands/scale.js'
import { compileSoon } from '../compile-soon.js'
import type { Io } from '../io.js'
import { planningOptions } from './planning.js'

const help = `
Example:
  lockstep scale --model llama3-70b --cluster h100 --devices 64,256,1024 --seq 8k --global-batch 512

Strong scaling: the same global batch on more devices. Weak scaling: the global batch grows
with the devices, starting from --global-batch at the smallest size.

Exit code 0: fine, 1: the request has problems or nothing fits anywhere, 2: usage error.`

export function register(command: Command, io: Io, done: (code: number) => void): void {
  planningOptions(
    command.description('Finds the best plan for each cluster size: strong and weak scaling, and where scaling stops.'),
    { mayHaveJob: false },
  )
    .requiredOption('--devices <list>', 'cluster sizes, such as 8,16,32', counts)
    .option('--json', 'everything as JSON')
    .addHelpText('after', help)
    .action(async (options: ScaleOptions) => {
      compileSoon()
      const { scaleCommand } = await import('../commands/scale.js')
      done(await scaleCommand(options, io))
    })
}

function counts(text: string): number[] {
  const parts = text.split(',').map(part => parseCount(part, 1024))
  const wrong = parts.findIndex(part => !part || part >= 1e7)
  if (wrong >= 0) throw new InvalidArgumentError('expected numbers such as 8,16,1k.')
  return parts.map(Number)
}
