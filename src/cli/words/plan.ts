/** What `lockstep plan` is called with. */
import { type Command, InvalidArgumentError } from 'commander'
import { either } from '../../base/index.js'
import { type ExtraName, extraNames } from '../../search/extra-names.js'
import { keptPlans } from '../../search/kept-plans.js'
import type { PlanOptions } from '../commands/plan.js'
import { compileSoon } from '../compile-soon.js'
import type { Io } from '../io.js'
import { integer, positive, size } from '../text/integer.js'
import { missingWithoutJob, planningOptions } from './planning.js'

const help = `
Examples:
  lockstep plan job.yaml --cluster h100 --devices 64 --out planned.yaml
  lockstep plan --model llama3-70b --cluster h100 --devices 64 --seq 8192 --global-batch 256
  lockstep plan --model llama3-405b --cluster h100 --devices 16384 --seq 8192 --global-batch 2048 \\
    --software megatron-2024 --constraint 'tp<=8' 'memory<=70GiB' --out job.yaml

Exit code 0: a plan was found, 1: no plan works or the request has problems, 2: usage error.`

export function register(command: Command, io: Io, done: (code: number) => void): void {
  planningOptions(
    command.description(
      'Searches all parallelism plans for a model on a cluster: the fastest that fit in memory, with step time, MFU, memory and cost, and why the others are worse. A job file replaces --model, --seq and --global-batch; its precision, optimizer and LoRA settings apply too.',
    ),
    { mayHaveJob: true },
  )
    .argument('[job]', 'job file (YAML or JSON; - for standard input) to search a new plan for')
    .option('--allow <list>', `also search plans with some of: ${extraNames.join(', ')}`, allowed)
    .option('--devices <n>', 'number of devices (default: those of the cluster file, or of the plan of the job)', size)
    .option('--top <n>', 'number of plans to list', positive, 10)
    .option('--simulate <n>', 'number of candidates to simulate', integer, keptPlans)
    .option('--no-simulate', 'cost model only: simulate and compile nothing (except for --out)')
    .option('--no-why', 'only the plans: no ablations, no sensitivity analysis')
    .option('--quick', 'only the best plan by the cost model: --no-simulate --no-why --top 1, no Pareto frontier')
    .option('--out <file>', 'write a job file with the best plan; for a job, a copy with that plan')
    .option('--json', 'everything as JSON')
    .addHelpText('after', help)
    .action(async (path: string | undefined, options: PlanOptions) => {
      requireEither(command, path, options)
      const asked = options.simulate !== false && command.getOptionValueSource('simulate') === 'cli'
      if (options.quick && asked)
        command.error('error: --quick cannot be combined with --simulate <n>: it simulates nothing')
      compileSoon()
      const { planCommand } = await import('../commands/plan.js')
      const isTopAsked = command.getOptionValueSource('top') === 'cli'
      done(await planCommand(path, options.quick && !isTopAsked ? { ...options, top: 1 } : options, io))
    })
}

/** A job, or a model with its sizes. */
function requireEither(command: Command, path: string | undefined, options: PlanOptions): void {
  const ofJob = ['model', 'precision', 'lora'].filter(name => command.getOptionValueSource(name) === 'cli')
  const problems =
    path === undefined
      ? missingWithoutJob({ ...options }).map(({ flags, description }) => `${flags} is missing: ${description}`)
      : ofJob.map(name => `--${name} cannot be combined with a job, which specifies it`)
  if (problems.length > 0) command.error(problems.map(problem => `error: ${problem}`).join('\n'))
}

function allowed(text: string): ExtraName[] {
  const words = text.split(',')
  const unknown = words.find(word => !(extraNames as readonly string[]).includes(word))
  if (unknown !== undefined) throw new InvalidArgumentError(`${unknown} is not ${either(extraNames)}.`)
  return [...new Set(words as ExtraName[])] // each is one of them
}
