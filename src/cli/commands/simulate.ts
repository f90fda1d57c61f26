/** lockstep simulate: how long a step takes on a cluster nobody has rented yet, and where the time goes. */
import { type Command, Option } from 'commander'
import { asPart, error, ProblemsError, type Rank, save, type Watcher, type Work, worldOf } from '../../base/index.js'
import { machinePrices } from '../../calibrate/index.js'
import { type Cluster, findEntry, precisionProblem, precisions } from '../../cluster/index.js'
import { multipliesIn } from '../../cost/index.js'
import type { Program } from '../../ir/index.js'
import { stepTimeline, timelineSvg } from '../../report/index.js'
import { type Simulation, scaledPrices, simulating, simulatingInTurns } from '../../simulate/index.js'
import { printChrome } from '../../trace/index.js'
import { loadCluster } from '../files/load-cluster.js'
import { requireOutputs } from '../files/outputs.js'
import { type Loaded, withProgram } from '../files/program.js'
import type { Io } from '../io.js'
import { count, duration, positive, share, slowdowns, someTime } from '../text/amounts.js'
import { type Asked, forecastOf, forecastText, pipelineOf } from '../text/forecast.js'
import { integer, size } from '../text/integer.js'
import { showTime } from '../text/numbers.js'
import { Progress, withProgress } from '../text/progress.js'

export interface SimulateOptions extends Asked {
  readonly cluster: string
  readonly devices?: number
  readonly slow?: ReadonlyMap<Rank, number>
  readonly jitter?: number
  readonly seed: number
  readonly scale?: number
  readonly contention?: number
  readonly trace?: string
  readonly svg?: string
  readonly json?: boolean
}

const help = `
Examples:
  lockstep simulate job.yaml --cluster h100
  lockstep simulate job.yaml --cluster h100 --slow 17:1.3 --jitter 0.02 --svg step.svg
  lockstep simulate job.yaml --cluster h100 --tokens 15T --price 2.5 --mtbf 50000h --checkpoint 60s
  lockstep simulate job.yaml --cluster mine.yaml --measured-step 4.2s

Exit code 0: fine, 1: the job or the cluster has problems, 2: usage error.`

export function registerSimulate(program: Command, io: Io, done: (code: number) => void): void {
  program
    .command('simulate')
    .summary('step time, utilisation and timeline on a cluster')
    .description('Simulates a step of a job on a cluster: how long it takes, where the time goes, what a run costs.')
    .argument('<job>', 'job file (YAML or JSON; - for standard input)')
    .requiredOption('--cluster <name>', 'a device of the catalog (lockstep cluster list), or a cluster file')
    .option('--devices <n>', 'how many there are (default: as many as the plan has ranks)', size)
    .option('--slow <rank:factor>', 'a rank (or first-last) that is slower by this factor', slowdowns)
    .option('--jitter <share>', 'random spread of the time of every call, such as 0.02', share)
    .option('--seed <n>', 'seed of the jitter', integer, 1)
    .option('--tokens <count>', 'what the run trains on, such as 15T: days and money', count)
    .option('--price <dollars>', "for an hour of one device (default: the catalog's)", positive)
    .option('--mtbf <time>', 'mean time between failures of one device, such as 50000h: goodput', someTime)
    .addOption(timeOption('--checkpoint <time>', 'how long training pauses for a checkpoint', '60s'))
    .addOption(timeOption('--restart <time>', 'from a failure until training resumes', '10min'))
    .option('--checkpoint-every <time>', 'time between checkpoints (default: the best)', someTime)
    .option('--measured-step <time>', 'a step of this job as it was measured: all prices are scaled to it', someTime)
    .option('--scale <factor>', 'factor for all prices, as --measured-step found for another plan', positive)
    .addOption(
      new Option('--multiply <precision>', 'precision of products, where it is not that of what is stored').choices([
        ...precisions,
      ]),
    )
    .option('--contention <share>', 'what compute loses while a collective runs beside it (default: 0.12)', share)
    .option('--trace <file>', 'write the spans of a pipeline for chrome://tracing or ui.perfetto.dev')
    .option('--svg <file>', 'draw the timeline of a pipeline')
    .option('--json', 'everything as JSON')
    .addHelpText('after', help)
    .action(async (path: string, options: SimulateOptions) => {
      done(await withProgram(path, io, { ...options, fits: false }, loaded => run(loaded, options, io)))
    })
}

const timeOption = (flags: string, about: string, usual: string): Option =>
  new Option(flags, about).argParser(duration).default(duration(usual), usual)

async function run(loaded: Loaded, options: SimulateOptions, io: Io): Promise<number> {
  requireOutputs(io, options.trace, options.svg)
  const { program } = loaded
  const cluster = clusterFor(program, options, io)
  const { simulation, scale } = await withProgress(io, watcher => watched(program, cluster, options, watcher))
  const forecast = forecastOf({ ...loaded, cluster, simulation, scale }, options)
  // A slow rank is what one wants to look at.
  const ranks = pipelineOf(program, options.slow?.keys().next().value ?? 0)
  const { say, erase } = new Progress(io)
  if (options.trace !== undefined) {
    say('writing the trace')
    save(options.trace, printChrome(program, ranks.flatMap(simulation.spansOf)), io)
  }
  if (options.svg !== undefined) {
    say('drawing the timeline')
    save(options.svg, timelineSvg(stepTimeline(pictureOf(loaded, cluster, simulation, ranks))), io)
  }
  erase()
  io.out(
    options.json
      ? `${JSON.stringify(forecast, null, 2)}\n`
      : forecastText(forecast, { program, simulation, ranks }, io),
  )
  return 0
}

/** What a step of the program takes there. */
export async function expectedOn(
  program: Program,
  on: { cluster: string; devices?: number },
  io: Io,
  watcher: Watcher,
) {
  const cluster = clusterFor(program, on, io)
  const { simulation } = await watched(program, cluster, { seed: 1 }, watcher)
  return { secondsPerStep: simulation.step, cluster: cluster.name }
}

function watched(
  program: Program,
  cluster: Cluster,
  options: Circumstances,
  watcher: Watcher,
): Promise<ScaledSimulation> {
  const phase = `simulating ${worldOf(program.mesh)} ranks`
  watcher.expect({ [phase]: 1 })
  return watcher.run(phase, simulatingScaled(program, cluster, options))
}

type ClusterOptions = Pick<SimulateOptions, 'cluster' | 'devices' | 'slow' | 'multiply'>

/** The cluster has as many devices as the plan has ranks, unless the user says how many; throws what is wrong with that. */
function clusterFor(program: Program, { cluster: given, devices, slow, multiply }: ClusterOptions, io: Io): Cluster {
  const ranks = worldOf(program.mesh)
  const named = loadCluster(given, io, devices ?? (findEntry(given) ? ranks : undefined))
  // A machine has as many threads as are asked for.
  const cluster = named.cores === undefined ? named : loadCluster(given, io, ranks)
  const equation = program.mesh.axes
    .filter(({ size }) => size > 1)
    .map(({ name, size }) => `${name} ${size}`)
    .join(' x ')
  const missing = precisionProblem(
    cluster.device,
    multipliesIn(program, multiply),
    multiply ? '--multiply' : 'plan.precision',
  )
  const problems = [
    ...(missing ? [missing] : []),
    ...(cluster.devices < ranks
      ? [
          error(
            'cluster/devices',
            '--devices',
            `${equation} = ${ranks} ranks, but the cluster has ${cluster.devices} devices`,
            'change the plan, or leave --devices out',
          ),
        ]
      : []),
    ...[...(slow?.keys() ?? [])]
      .filter(rank => rank >= ranks)
      .slice(0, 1)
      .map(rank => error('simulate/rank', '--slow', `there is no rank ${rank}: the plan has ranks 0 to ${ranks - 1}`)),
  ]
  if (problems.length > 0) throw new ProblemsError(problems)
  return cluster
}

type Circumstances = Pick<SimulateOptions, 'seed'> & Partial<SimulateOptions>

interface ScaledSimulation {
  readonly simulation: Simulation
  readonly scale: number
}

/** A measured step gives a scale: everything takes so many times as long, so the step does. */
function* simulatingScaled(program: Program, cluster: Cluster, options: Circumstances): Work<ScaledSimulation> {
  const { slow, jitter, seed, multiply, contention, measuredStep, scale: given = 1 } = options
  const prices = machinePrices(program, cluster, {
    ...(multiply && { multiply }),
    ...(contention !== undefined && { contention: { compute: contention, network: 0 } }),
  })
  const luck = { ...(slow && { slow }), ...(jitter ? { jitter: { share: jitter, seed } } : {}) }
  const at = (scale: number) => {
    const scaled = scale === 1 ? prices : scaledPrices(prices, scale)
    return cluster.cores === undefined
      ? simulating(program, scaled, luck)
      : simulatingInTurns(program, scaled, cluster.cores, luck)
  }
  const simulation = yield* asPart(0, measuredStep === undefined ? 1 : 0.5, at(given))
  if (measuredStep === undefined) return { simulation, scale: given }
  const scale = (given * measuredStep) / simulation.step
  return { simulation: yield* asPart(0.5, 1, at(scale)), scale }
}

function pictureOf({ job, program }: Loaded, cluster: Cluster, simulation: Simulation, ranks: readonly Rank[]) {
  const mesh = program.mesh.axes.filter(({ size }) => size > 1).map(({ name, size }) => `${name} ${size}`)
  return {
    title: `${job.name ?? program.name} on ${worldOf(program.mesh)} x ${cluster.device.title}: ${showTime(simulation.step)} a step`,
    subtitle: `${mesh.join(', ') || 'one rank'}; ${program.microbatches} microbatches; one rank of each pipeline stage, boxes hold the microbatch; thin lanes are links, grey is memory`,
    ...{ program, spansOf: simulation.spansOf, ranks, end: simulation.step },
  }
}
