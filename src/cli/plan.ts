/** lockstep plan: the best ways to split a model over a cluster, and why they are. */
import { dirname, relative } from 'node:path'
import type { Command } from 'commander'
import { stringify } from 'yaml'
import {
  type Found,
  type Impossible,
  type Neighbour,
  neighboursOf,
  type Priced,
  planInput,
  ratesOfPlan,
  readingOf,
  type Sensitivity,
  type Sentence,
  search,
  sensitivities,
  sensitivityOf,
  whyImpossible,
} from '../search/index.js'
import { integer } from './integer.js'
import type { Io } from './io.js'
import { impossibleText, planText } from './plan-text.js'
import { type Planning, type PlanningOptions, planningOf, planningOptions } from './planning.js'
import { progress } from './progress.js'

interface Options extends PlanningOptions {
  readonly devices?: number
  readonly top: number
  readonly why: boolean
  readonly out?: string
  readonly json?: boolean
}

const help = `
Examples:
  lockstep plan --model llama3-70b --cluster h100 --devices 64 --seq 8192 --global-batch 256
  lockstep plan --model llama3-405b --cluster h100 --devices 16384 --seq 8192 --global-batch 2048 \\
    --software megatron-2024 --constraint 'tp<=8' 'memory<=70GiB' --out job.yaml

Exit code 0: a plan was found, 1: no plan works or the request has problems, 2: wrong use.`

export function registerPlan(program: Command, io: Io, done: (code: number) => void): void {
  planningOptions(
    program
      .command('plan')
      .summary('find the best plan for a model on a cluster')
      .description(
        'Searches all ways to split a model over a cluster: the fastest that fit, what they cost, and why the others are not chosen.',
      ),
  )
    .option('--devices <n>', 'how many devices there are', integer)
    .option('--top <n>', 'how many plans to list', integer, 10)
    .option('--no-why', 'the plans alone, without neighbours and sensitivity')
    .option('--out <file>', 'write the best plan as a job file')
    .option('--json', 'everything as JSON')
    .addHelpText('after', help)
    .action((options: Options) => done(planCommand(options, io)))
}

/** Everything that was found out about a request. */
export interface Answer {
  readonly planning: Planning
  readonly found: Found
  readonly seconds: number
  readonly why?: Why
}

export interface Why {
  readonly reading: readonly Sentence[]
  readonly neighbours: readonly Neighbour[]
  readonly sensitivity: readonly Sensitivity[]
}

/** Kept, so that what is listed is the best of what differs. */
const kept = 300

function planCommand(options: Options, io: Io): number {
  const planning = planningOf(options, options.devices, io)
  const { request } = planning
  const say = progress(io)
  const started = performance.now()
  const found = search(request, {
    keep: Math.max(kept, options.top),
    watch: (done, all) => say(`searching ${Math.floor((100 * done) / all)} %`),
  })
  const seconds = (performance.now() - started) / 1000
  const [best] = found.best
  if (!best) {
    say('looking for what would work')
    const impossible = whyImpossible(request, devices => attempt(() => planning.clusterAt(devices)))
    say('')
    if (options.json) io.out(`${JSON.stringify({ ok: false, ...impossible }, null, 2)}\n`)
    else io.err(impossibleText(planning, impossible, io))
    return 1
  }
  const why = options.why ? whyOf(planning, best, say) : undefined
  say('')
  const answer: Answer = { planning, found, seconds, ...(why && { why }) }
  io.out(options.json ? `${JSON.stringify(asJson(answer, options.top), null, 2)}\n` : planText(answer, options.top, io))
  if (options.out !== undefined) {
    io.write(options.out, jobText(planning, best, options.out))
    if (!options.json) io.out(`\nwritten: ${options.out} (lockstep check, compile, simulate and explain read it)\n`)
  }
  return 0
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}

function whyOf({ request }: Planning, best: Priced, say: (text: string) => void): Why {
  const sensitivity: Sensitivity[] = []
  say('asking what would change it')
  for (const one of sensitivityOf(request, best)) {
    sensitivity.push(one)
    say(`asking what would change it: ${sensitivity.length} of ${sensitivities.length}`)
  }
  return { reading: readingOf(request, best), neighbours: neighboursOf(request, best), sensitivity }
}

const planJson = ({ request }: Planning, plan: Priced) => ({
  plan: planInput(plan.split),
  ...plan.estimate,
  bytes: plan.bytes,
  ...ratesOfPlan(request, plan),
})

function asJson({ planning, found, seconds, why }: Answer, top: number) {
  const { request, notes } = planning
  return {
    ok: true,
    notes,
    request: {
      ...{ shape: request.shape, globalBatch: request.globalBatch, precision: request.precision },
      ...{ cluster: request.cluster.name, devices: request.cluster.devices, software: request.software.name },
      constraints: request.constraints.map(c => c.text),
    },
    counts: found.counts,
    seconds,
    capacity: found.capacity,
    best: found.best.slice(0, top).map(plan => planJson(planning, plan)),
    front: found.front.map(plan => planJson(planning, plan)),
    ...(why && {
      why: {
        reading: why.reading,
        neighbours: why.neighbours.map(({ move, verdict, plan }) => ({
          ...{ move: move.name, verdict },
          ...(plan && { plan: planInput(plan.split), step: plan.estimate.step, bytes: plan.bytes }),
        })),
        sensitivity: why.sensitivity.map(({ best, ...one }) => ({
          ...one,
          ...(best && { plan: planInput(best.split), step: best.estimate.step }),
        })),
      },
    }),
  }
}

/** A job file: what was asked, and the plan. Paths in it are relative to it. */
export function jobText({ request, model }: Planning, { split, estimate }: Priced, path: string): string {
  const named = typeof model === 'string' && model.endsWith('.json') ? relative(dirname(path), model) : model
  const job = {
    model: named,
    training: { seq: request.shape.seq, globalBatch: request.globalBatch },
    plan: planInput(split),
  }
  const { cluster, software } = request
  return [
    `# The fastest plan found for ${cluster.devices} x ${cluster.device.title}, as ${software.name} would run it:`,
    `# ${estimate.step.toPrecision(3)} s a step. Written by lockstep plan.`,
    stringify(job),
  ].join('\n')
}

export type { Impossible }
