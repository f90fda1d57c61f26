/** lockstep simulate: how long a step takes on a cluster nobody has rented yet, and where the time goes. */
import {
  asPart,
  counted,
  error,
  ProblemsError,
  type Rank,
  save,
  showTime,
  type Watcher,
  type Work,
  worldOf,
} from '../../base/index.js'
import { machinePrices } from '../../calibrate/machine-prices.js'
import { predictionOf } from '../../calibrate/prediction.js'
import { type Cluster, findEntry, precisionProblem } from '../../cluster/index.js'
import { multipliesIn } from '../../cost/index.js'
import type { Program } from '../../ir/index.js'
import { stepTimeline, timelineSvg } from '../../report/index.js'
import { type ForecastOptions, forecastOf } from '../../search/index.js'
import { type Simulation, scaledPrices, simulating, simulatingInTurns } from '../../simulate/index.js'
import { printChrome } from '../../trace/index.js'
import { loadCluster } from '../files/load-cluster.js'
import { requireOutputs } from '../files/outputs.js'
import { type Loaded, withProgram } from '../files/program.js'
import type { Io } from '../io.js'
import { forecastText, pipelineOf } from '../text/forecast.js'
import { Progress, withProgress } from '../text/progress.js'

export interface SimulateOptions extends ForecastOptions {
  readonly cluster: string
  readonly devices?: number
  readonly set?: Readonly<Record<string, string>>
  readonly slow?: ReadonlyMap<Rank, number>
  readonly jitter?: number
  readonly seed: number
  readonly scale?: number
  readonly contention?: number
  readonly trace?: string
  readonly svg?: string
  readonly json?: boolean
}

export const simulateCommand = (path: string, options: SimulateOptions, io: Io): Promise<number> =>
  withProgram(path, io, { ...options, fits: false }, loaded => run(loaded, options, io))

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
  return predictionOf(cluster, simulation)
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
    multiply ? '--multiply' : multipliesIn(program) === 'fp8' ? 'plan.fp8' : 'plan.precision',
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
    title: `${job.name ?? program.name} on ${worldOf(program.mesh)} x ${cluster.device.title}: ${showTime(simulation.step)}/step`,
    subtitle: `${mesh.join(', ') || 'one rank'}; ${counted(program.microbatches, 'microbatch')}; one rank per pipeline stage; numbers are microbatches, thin lanes links, gray memory`,
    ...{ program, spansOf: simulation.spansOf, ranks, end: simulation.step },
  }
}
