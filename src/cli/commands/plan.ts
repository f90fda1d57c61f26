/** lockstep plan: the best ways to split a model over a cluster, and why they are. */
import { dirname, relative } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { Command } from 'commander'
import { stringify } from 'yaml'
import { seconds } from '../../base/index.js'
import type { Estimate } from '../../estimate/index.js'
import {
  keptPlans,
  type Neighbour,
  neighboursOf,
  type PlannerProgress,
  type Priced,
  planFor,
  planInput,
  type RankedPlan,
  type Ranking,
  ratesOfPlan,
  readingOf,
  type Sensitivity,
  type Sentence,
  sensitivities,
  sensitivityOf,
  whyImpossible,
} from '../../search/index.js'
import { save } from '../files/run-folder.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'
import { impossibleText, planText } from '../text/plan-text.js'
import { type Planning, type PlanningOptions, planningOf, planningOptions } from '../text/planning.js'
import { progress } from '../text/progress.js'

interface Options extends PlanningOptions {
  readonly devices?: number
  readonly top: number
  readonly why: boolean
  /** False: prices alone. */
  readonly simulate: number | false
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
    .option(
      '--simulate <n>',
      'how many of the best plans to simulate, before those listed are compiled',
      integer,
      keptPlans,
    )
    .option('--no-simulate', 'prices in closed form alone: nothing is compiled, except for --out')
    .option('--no-why', 'the plans alone, without neighbours and sensitivity')
    .option('--out <file>', 'write the best plan as a job file')
    .option('--json', 'everything as JSON')
    .addHelpText('after', help)
    .action(async (options: Options) => done(await planCommand(options, io)))
}

/** Everything that was found out about a request. */
export interface Answer {
  readonly planning: Planning
  readonly ranking: Ranking
  readonly why?: Why
}

export interface Why {
  readonly reading: readonly Sentence[]
  readonly neighbours: readonly Neighbour[]
  readonly sensitivity: readonly Sensitivity[]
}

async function planCommand(options: Options, io: Io): Promise<number> {
  const planning = planningOf(options, options.devices, io)
  const { request } = planning
  const say = progress(io)
  // What is written is compiled, whatever was asked.
  const simulate = options.simulate === false && options.out !== undefined ? 0 : options.simulate
  const ranking = await interruptible(io, stop =>
    planFor(request, { top: options.top, simulate, stop, watch: heard(say) }),
  )
  if (!ranking) return refuse(planning, options, io)
  const [first] = ranking.listed
  const why = options.why ? whyOf(planning, { chosen: first, cheapest: ranking.found.best[0] }, say) : undefined
  say('')
  const answer: Answer = { planning, ranking, ...(why && { why }) }
  io.out(options.json ? `${JSON.stringify(asJson(answer), null, 2)}\n` : planText(answer, io))
  if (options.out !== undefined) {
    save(options.out, jobText(planning, first, options.out), io)
    if (!options.json) io.out(`\nwritten: ${options.out} (lockstep check, compile, simulate and explain read it)\n`)
  }
  return 0
}

/** Until the user has seen enough. */
async function interruptible<T>(io: Io, work: (stop: { readonly aborted: boolean }) => Promise<T>): Promise<T> {
  const stop = { aborted: false }
  const forget = io.onInterrupt(() => {
    stop.aborted = true
  })
  return work(stop).finally(forget)
}

const heard =
  (say: (text: string) => void) =>
  async ({ phase, done, all }: PlannerProgress): Promise<void> => {
    if (phase === 'search') say(`searching ${Math.floor((100 * done) / (all ?? 1))} %`)
    else say(phase === 'simulate' ? `simulated ${done} of ${all} plans` : `compiled ${done} plans`)
    await setImmediate() // an interrupt is heard here
  }

function refuse(planning: Planning, { json }: Options, io: Io): number {
  const say = progress(io)
  say('looking for what would work')
  const impossible = whyImpossible(planning.request, devices => attempt(() => planning.clusterAt(devices)))
  say('')
  if (json) io.out(`${JSON.stringify({ ok: false, ...impossible }, null, 2)}\n`)
  else io.err(impossibleText(planning, impossible, io))
  return 1
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}

interface Choice {
  readonly chosen: RankedPlan
  /** By price alone: a price is compared with prices. */
  readonly cheapest: Priced
}

function whyOf({ request }: Planning, { chosen, cheapest }: Choice, say: (text: string) => void): Why {
  const sensitivity: Sensitivity[] = []
  say('asking what would change it')
  for (const one of sensitivityOf(request, cheapest)) {
    sensitivity.push(one)
    say(`asking what would change it: ${sensitivity.length} of ${sensitivities.length}`)
  }
  const { plan, simulated } = chosen
  const bytes = simulated?.arena ?? plan.bytes
  return {
    reading: readingOf(request, { ...plan, bytes, estimate: { ...plan.estimate, ...timesOf(chosen) } }),
    neighbours: neighboursOf(request, { ...plan, bytes }),
    sensitivity,
  }
}

/** As it was simulated, if it was: of a step the whole and the bubble. */
function timesOf({ plan: { estimate }, simulated }: RankedPlan): Pick<Estimate, 'step' | 'parts'> {
  if (!simulated) return estimate
  return { step: seconds(simulated.step), parts: { ...estimate.parts, bubble: seconds(simulated.parts.bubble) } }
}

const planJson = ({ request }: Planning, { plan, simulated }: RankedPlan) => ({
  plan: planInput(plan.split, request.precision),
  ...plan.estimate,
  bytes: plan.bytes,
  ...ratesOfPlan(request, plan, simulated?.step),
  ...(simulated && { simulated: { step: simulated.step, parts: simulated.parts, arena: simulated.arena } }),
})

function asJson({ planning, ranking, why }: Answer) {
  const { request, notes } = planning
  const { precision } = request
  const { found, listed, front, outlined, compiled, failed, tooLong } = ranking
  return {
    ok: true,
    notes,
    request: {
      ...{ shape: request.shape, globalBatch: request.globalBatch, precision },
      ...{ cluster: request.cluster.name, devices: request.cluster.devices, software: request.software.name },
      constraints: request.constraints.map(c => c.text),
    },
    counts: { ...found.counts, simulated: outlined.length, compiled: compiled.length, failed: failed.length, tooLong },
    failed: failed.map(({ plan, why }) => ({ plan: planInput(plan.split, precision), why })),
    capacity: found.capacity,
    best: listed.map(one => planJson(planning, one)),
    front: front.map(one => planJson(planning, one)),
    ...(why && {
      why: {
        reading: why.reading,
        neighbours: why.neighbours.map(({ move, verdict, plan }) => ({
          ...{ move: move.name, verdict },
          ...(plan && { plan: planInput(plan.split, precision), step: plan.estimate.step, bytes: plan.bytes }),
        })),
        sensitivity: why.sensitivity.map(({ best, ...one }) => ({
          ...one,
          ...(best && { plan: planInput(best.split, precision), step: best.estimate.step }),
        })),
      },
    }),
  }
}

/** A job file: what was asked, and the plan. Paths in it are relative to it. */
export function jobText({ request, model }: Planning, { plan, simulated }: RankedPlan, path: string): string {
  const named = typeof model === 'string' && model.endsWith('.json') ? relative(dirname(path), model) : model
  const job = {
    model: named,
    training: { seq: request.shape.seq, globalBatch: request.globalBatch },
    plan: planInput(plan.split, request.precision),
  }
  const { cluster, software } = request
  return [
    `# The fastest plan found for ${cluster.devices} x ${cluster.device.title}, as ${software.name} would run it:`,
    `# ${(simulated?.step ?? plan.estimate.step).toPrecision(3)} s a step. Written by lockstep plan.`,
    stringify(job),
  ].join('\n')
}
