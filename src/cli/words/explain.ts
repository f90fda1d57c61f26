/** What `lockstep explain` is called with. */
import type { Command } from 'commander'
import type { ExplainOptions } from '../commands/explain.js'
import { compileSoon } from '../compile-soon.js'
import type { Io } from '../io.js'
import { someTime } from '../text/amounts.js'
import { withForeign } from './foreign.js'
import { softwareOption } from './planning.js'

const help = `
Examples:
  lockstep explain job.yaml --cluster h100 --out better.yaml
  lockstep explain job.yaml --cluster a100 --software megatron-2024 --measured-step 4.2s
  lockstep explain pretrain.sh --devices 64 --cluster h100

Exit code 0: fine, 1: the job or the cluster has problems, 2: usage error.`

export function register(command: Command, io: Io, done: (code: number) => void): void {
  withForeign(
    command
      .description(
        'Estimates a job on a cluster and every plan that differs by one decision: the answer first, then where the time goes, kernel and network utilization, the cost of each decision, and which changes are faster, slower or impossible, and why. Takes configs of other frameworks too.',
      )
      .argument('<job>', 'job file (YAML or JSON; - for standard input)')
      .requiredOption('--cluster <name>', 'a device (lockstep cluster list) or a cluster file')
      .addOption(softwareOption())
      .option('--measured-step <time>', 'the measured step time of this job: all estimates are scaled to it', someTime),
  )
    .option('--out <file>', 'write the job with the best plan found')
    .option('--json', 'everything as JSON')
    .addHelpText('after', help)
    .action(async (path: string, options: ExplainOptions) => {
      compileSoon()
      const { explainCommand } = await import('../commands/explain.js')
      done(await explainCommand(path, options, io))
    })
}
