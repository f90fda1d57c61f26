/** The exact numbers: the program of the plan, compiled and simulated. The last one is kept, for what else is asked about it. */
import {
  clusterPrices,
  compileJob,
  type Forecast,
  forecastOf,
  type Job,
  type Prices,
  type Problem,
  ProblemsError,
  type Program,
  type Simulation,
  simulate,
} from 'lockstep'
import { type Asked, type Link, readLink } from './link.js'
import { refused } from './phrases.js'
import { type Numbers, partsOf, type RankBytes, shown } from './price.js'

export interface Built {
  readonly asked: Asked
  readonly program: Program
  readonly prices: Prices
  readonly simulation: Simulation
  readonly forecast: Forecast
}

let last: { readonly key: string; readonly built: Built } | undefined

export async function built(link: Link): Promise<Built> {
  const key = JSON.stringify(Object.entries(link).sort())
  if (last?.key !== key) last = { key, built: build(await readLink(link)) }
  return last.built
}

/** Checkpoints and restarts of a usual run, in seconds: what `lockstep simulate --mtbf` takes where nothing is said. */
const pauses = { checkpoint: 60, restart: 600 }

export function build(asked: Asked): Built {
  const { job, cluster, whatIf } = asked
  const problems = slowProblems(asked)
  if (problems.length > 0) throw new ProblemsError(problems)
  const program = compileJob(job, undefined, { verify: false })
  const prices = clusterPrices(program, cluster)
  const { slow, jitter, tokens, mtbf } = whatIf
  const luck = { ...(slow.size > 0 && { slow }), ...(jitter > 0 && { jitter: { share: jitter, seed: 1 } }) }
  const simulation = simulate(program, prices, luck)
  const failing = mtbf === undefined ? pauses : { ...pauses, mtbf: mtbf * 3600 }
  const forecast = forecastOf({ job, program, cluster, simulation, scale: 1 }, { tokens, ...failing })
  return { asked, program, prices, simulation, forecast }
}

function slowProblems({ whatIf: { slow }, cluster: { devices } }: Asked): Problem[] {
  return [...slow.keys()]
    .filter(rank => rank >= devices)
    .map(rank => refused('slow', 'simulate/rank', { rank, last: devices - 1 }))
}

export interface ExactAnswer {
  /** What was asked: a page compares it with where the reader is by now. */
  readonly link: Link
  readonly numbers: Numbers
  /** The figures that `lockstep simulate --json` prints, as they are. */
  readonly forecast: Forecast
  readonly job: Job
  readonly warnings: readonly Problem[]
}

export async function exact(link: Link): Promise<ExactAnswer> {
  const { forecast, program, asked } = await built(link)
  return { link, numbers: numbersOf(forecast, program), forecast, job: asked.job, warnings: asked.warnings }
}

export function numbersOf(forecast: Forecast, program: Program): Numbers {
  const { step, mfu, tokensPerSecond, memory, run, failures } = forecast
  return {
    ...{ exact: true, step, parts: partsOf(forecast.parts), mfu: mfu.palm, tokensPerSecond },
    ...{ bytes: memory.arena, capacity: memory.usable, ranks: ranksOf(program) },
    run: {
      ...{ tokens: run?.tokens ?? 0, days: run?.days ?? 0 },
      ...(run?.dollars !== undefined && { dollars: run.dollars }),
    },
    ...(failures && { goodput: failures.share }),
  }
}

/** One bar for every pipeline coordinate: ranks that differ on other axes need the same. */
const ranksOf = ({ streams }: Program): RankBytes[] =>
  streams.map(({ arena, peak }, pp) => ({ label: `pp ${pp}`, kinds: shown(Object.entries(peak)), bytes: arena }))
