/** lockstep plan: the best ways to split a model over a cluster, and why they are. */
import { dirname, relative } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { Command } from 'commander'
import { stringify } from 'yaml'
import { error, type Problem, ProblemsError, save } from '../../base/index.js'
import {
  bestOfEachFirst,
  canSimulate,
  type Found,
  kindOf,
  type Neighbour,
  neighboursOf,
  type OutlinedPlan,
  outlinedPlans,
  type Priced,
  planInput,
  type Request,
  ratesOfPlan,
  readingOf,
  type Sensitivity,
  type Sentence,
  type SimulatedPlan,
  search,
  sensitivities,
  sensitivityOf,
  simulatedPlans,
  whyImpossible,
} from '../../search/index.js'
import type { Io } from '../io.js'
import { integer } from '../text/integer.js'
import { impossibleText, planText } from '../text/plan-text.js'
import { type Planning, type PlanningOptions, planningOf, planningOptions } from '../text/planning.js'
import { progress } from '../text/progress.js'

interface Options extends PlanningOptions {
  readonly devices?: number
  readonly top: number
  readonly why: boolean
  /** False: not at all. */
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
      '--simulate <seconds>',
      'for how long to simulate the best plans, before those listed are compiled',
      integer,
      10,
    )
    .option('--no-simulate', 'prices in closed form alone')
    .option('--no-why', 'the plans alone, without neighbours and sensitivity')
    .option('--out <file>', 'write the best plan as a job file')
    .option('--json', 'everything as JSON')
    .addHelpText('after', help)
    .action(async (options: Options) => done(await planCommand(options, io)))
}

/** Everything that was found out about a request. */
export interface Answer {
  readonly planning: Planning
  readonly found: Found
  /** Best first: those that were simulated by that, and after them the others by their price. */
  readonly ranked: readonly Ranked[]
  readonly simulations: Simulations
  readonly seconds: { readonly search: number; readonly simulation: number }
  readonly why?: Why
}

export interface Ranked {
  readonly plan: Priced
  readonly simulated?: OutlinedPlan & Partial<SimulatedPlan>
}

export interface Simulations {
  readonly outlined: readonly OutlinedPlan[]
  /** Of the fastest of those the programs themselves; those that turned out not to fit included. */
  readonly compiled: readonly SimulatedPlan[]
}

export interface Why {
  readonly reading: readonly Sentence[]
  readonly neighbours: readonly Neighbour[]
  readonly sensitivity: readonly Sensitivity[]
}

/** Kept, so that what is listed is the best of what differs. */
const kept = 300

async function planCommand(options: Options, io: Io): Promise<number> {
  const planning = planningOf(options, options.devices, io)
  const { request } = planning
  const say = progress(io)
  const started = performance.now()
  const found = search(request, {
    keep: Math.max(kept, options.top),
    watch: (done, all) => say(`searching ${Math.floor((100 * done) / all)} %`),
  })
  const searched = performance.now()
  if (found.best.length === 0) return refuse(planning, options, io)
  const simulations = await simulateFor(request, found.best, options, io)
  const ranked = rank(found.best, simulations)
  if (ranked.length === 0) throw new ProblemsError([tooLarge(found, simulations)])
  const simulated = performance.now()
  const chosen = { ...ranked[0].plan, bytes: ranked[0].simulated?.arena ?? ranked[0].plan.bytes }
  const why = options.why ? whyOf(planning, { chosen, cheapest: found.best[0] }, say) : undefined
  say('')
  const seconds = { search: (searched - started) / 1000, simulation: (simulated - searched) / 1000 }
  const answer: Answer = { planning, found, ranked, simulations, seconds, ...(why && { why }) }
  io.out(options.json ? `${JSON.stringify(asJson(answer, options.top), null, 2)}\n` : planText(answer, options.top, io))
  if (options.out !== undefined) {
    save(options.out, jobText(planning, ranked[0], options.out), io)
    if (!options.json) io.out(`\nwritten: ${options.out} (lockstep check, compile, simulate and explain read it)\n`)
  }
  return 0
}

/** Simulates for as long as was asked, or until the user has seen enough; then compiles what is going to be listed. */
async function simulateFor(request: Request, best: readonly Priced[], options: Options, io: Io): Promise<Simulations> {
  if (options.simulate === false || !canSimulate(request)) return { outlined: [], compiled: [] }
  const say = progress(io)
  let stopped = false
  const forget = io.onInterrupt(() => {
    stopped = true
  })
  const take = async <T>(
    all: Iterable<T>,
    seconds: number,
    what: string,
    isEnough: (taken: readonly T[]) => boolean,
  ) => {
    const until = performance.now() + 1000 * seconds
    const taken: T[] = []
    for (const one of all) {
      taken.push(one)
      say(`${what} ${taken.length} plans`)
      await setImmediate() // an interrupt is heard here
      if ((stopped || performance.now() > until) && isEnough(taken)) break
    }
    return taken
  }
  const outlined = await take(outlinedPlans(request, bestOfEachFirst(best)), options.simulate, 'simulated', () => true)
  const inOrder = listed(rank(best, { outlined, compiled: [] })).map(({ plan }) => plan)
  const compiling = fitting(simulatedPlans(request, inOrder), options.top)
  const isFirstKnown = (compiled: readonly SimulatedPlan[]): boolean =>
    rank(best, { outlined, compiled })[0]?.simulated?.arena !== undefined
  const compiled = await take(compiling, compileSeconds, 'compiled', isFirstKnown)
  forget()
  return { outlined, compiled }
}

/** For so long those listed are compiled, and longer if the first of them is not known to fit. */
const compileSeconds = 2

/** Until so many fit. */
function* fitting(plans: Iterable<SimulatedPlan>, count: number): Generator<SimulatedPlan> {
  let found = 0
  for (const plan of plans) {
    yield plan
    if (plan.fits && ++found >= count) return
  }
}

/** What is compiled has the last word. */
function rank(best: readonly Priced[], { outlined, compiled }: Simulations): Ranked[] {
  const simulated = new Map<Priced, OutlinedPlan & Partial<SimulatedPlan>>()
  for (const one of [...outlined, ...compiled]) simulated.set(one.plan, one)
  const fitting = [...simulated.values()].filter(({ fits }) => fits !== false).sort((a, b) => a.step - b.step)
  return [
    ...fitting.map(one => ({ plan: one.plan, simulated: one })),
    ...best.filter(plan => !simulated.has(plan)).map(plan => ({ plan })),
  ]
}

/** Of plans that hardly differ the best; of schedules that come to the same thing one. */
export function listed(ranked: readonly Ranked[]): Ranked[] {
  const seen = new Set<string>()
  return ranked.filter(({ plan, simulated }) => {
    const { tp, pp, zero, recompute } = plan.split
    const same = [tp, pp, zero, recompute, simulated?.step ?? plan.estimate.step, simulated?.arena ?? plan.bytes].join()
    const keys = [kindOf(plan), same]
    const known = keys.some(key => seen.has(key))
    for (const key of keys) seen.add(key)
    return !known
  })
}

/** By price they fit: what the price leaves out must be left free. */
function tooLarge({ capacity }: Found, { compiled }: Simulations): Problem {
  const share = Math.min(...compiled.map(({ plan, arena }) => plan.bytes / arena))
  const limit = Math.floor((capacity * share) / 2 ** 30)
  const message = `all ${compiled.length} plans that fit by price are too large once compiled`
  return error('plan/memory', 'plan', message, `try --constraint 'memory<=${limit}GiB'`)
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
  readonly chosen: Priced
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
  return { reading: readingOf(request, chosen), neighbours: neighboursOf(request, chosen), sensitivity }
}

const planJson = ({ request }: Planning, { plan, simulated }: Ranked) => ({
  plan: planInput(plan.split, request.precision),
  ...plan.estimate,
  bytes: plan.bytes,
  ...ratesOfPlan(request, plan, simulated?.step),
  ...(simulated && {
    simulated: {
      ...{ step: simulated.step, parts: simulated.parts },
      ...(simulated.arena !== undefined && { arena: simulated.arena }),
    },
  }),
})

function asJson({ planning, found, ranked, simulations, seconds, why }: Answer, top: number) {
  const { request, notes } = planning
  const { precision } = request
  return {
    ok: true,
    notes,
    request: {
      ...{ shape: request.shape, globalBatch: request.globalBatch, precision },
      ...{ cluster: request.cluster.name, devices: request.cluster.devices, software: request.software.name },
      constraints: request.constraints.map(c => c.text),
    },
    counts: { ...found.counts, simulated: simulations.outlined.length, compiled: simulations.compiled.length },
    seconds,
    capacity: found.capacity,
    best: ranked.slice(0, top).map(one => planJson(planning, one)),
    front: found.front.map(plan => planJson(planning, { plan })),
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
export function jobText({ request, model }: Planning, { plan, simulated }: Ranked, path: string): string {
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
