/** Where claims are settled: jobs compiled, simulated and run, each once however many claims ask. */
import type { Program, Simulation } from 'lockstep'
import { type Core, core as ours } from './core.js'

/** A job as a file says it. */
export interface JobText {
  readonly model: string | Readonly<Record<string, unknown>>
  readonly training: Readonly<Record<string, unknown>>
  readonly plan?: Readonly<Record<string, unknown>>
}

/** Bytes of one rank, by kind: of the rank with most of each. */
export type Bytes = Program['streams'][number]['peak']

export type ParsedJob = NonNullable<ReturnType<Core['parseJob']>['job']>

export interface StepOptions {
  /** Ranks that are slower, and how many times. */
  readonly slow?: Readonly<Record<number, number>>
}

export interface StepTimes {
  readonly seconds: number
  /** Shares of the step. */
  readonly shares: Simulation['parts']
  readonly flops: Simulation['flops']
  /** Of what all devices could do in the time: what training needs, and all that was executed. */
  readonly mfu: number
  readonly hfu: number
}

export interface Lab {
  readonly core: Core
  readonly job: (text: JobText) => ParsedJob
  readonly program: (text: JobText) => Program
  readonly tally: (text: JobText) => ReturnType<Core['tallyOf']>
  readonly bytes: (text: JobText) => Bytes
  /** A step on as many devices as the plan has ranks. */
  readonly step: (text: JobText, device: string, options?: StepOptions) => StepTimes
  /** What a rank of the first stage hands to the network in a step, by what it is. */
  readonly traffic: (text: JobText, device: string) => ReturnType<Core['rankTraffic']>
  /** How far parallel ranks are from one rank, in f64, after two steps: the next power of ten, since the last bits are the machine's. */
  readonly apart: (text: JobText) => number
  /** Losses of the interpreter, rounded as the program stores, step by step on one batch. */
  readonly losses: (text: JobText, lr: number, steps: number) => readonly number[]
}

/** Programs of claims are verified by a claim of their own. */
const unverified = { verify: false }

export function labOf(core: Core = ours): Lab {
  const job = remembered((text: JobText) => jobIn(core, text))
  const program = remembered((text: JobText) => core.compileJob(job(text), undefined, unverified))
  const priced = (text: JobText, device: string) =>
    core.clusterPrices(program(text), core.clusterOf(device, worldOf(job(text))))
  const base = { core, job, program }
  return {
    ...base,
    tally: remembered(text => core.tallyOf(program(text))),
    bytes: remembered(text => mostOf(program(text).streams.map(({ peak }) => peak))),
    step: remembered((text, device, options = {}) => stepOf(base, text, { device, ...options })),
    traffic: remembered((text, device) => core.rankTraffic(program(text), priced(text, device), 0)),
    apart: remembered(text => apartOf(core, job(text))),
    losses: remembered((text, lr, steps) => lossesOf(base, text, { lr, steps })),
  }
}

function remembered<A extends readonly unknown[], T>(make: (...args: A) => T): (...args: A) => T {
  const made = new Map<string, T>()
  return (...args) => {
    const key = JSON.stringify(args)
    if (!made.has(key)) made.set(key, make(...args))
    return made.get(key)!
  }
}

function jobIn(core: Core, text: JobText): ParsedJob {
  const { job, problems } = core.parseJob(JSON.stringify(text))
  if (!job) throw new Error(problems.map(({ path, message }) => `${path}: ${message}`).join('\n'))
  return job
}

export const worldOf = ({ plan }: Pick<ParsedJob, 'plan'>): number => plan.dp * plan.tp * plan.pp * plan.cp

function mostOf(peaks: readonly Bytes[]): Bytes {
  const names = Object.keys(peaks[0]) as (keyof Bytes)[] // every kind is a key
  return Object.fromEntries(names.map(name => [name, Math.max(...peaks.map(peak => peak[name]))])) as Bytes
}

/** What a rank keeps from step to step, and the gradient. */
export const stateBytes = ({ parameters, gradients, optimizer }: Bytes): number => parameters + gradients + optimizer

type Base = Pick<Lab, 'core' | 'job' | 'program'>

function stepOf({ core, job, program }: Base, text: JobText, at: StepOptions & { device: string }): StepTimes {
  const compiled = program(text)
  const cluster = core.clusterOf(at.device, worldOf(job(text)))
  const slow = new Map(Object.entries(at.slow ?? {}).map(([rank, factor]) => [Number(rank), factor]))
  const prices = core.clusterPrices(compiled, cluster)
  const simulation = core.simulate(compiled, prices, { slow, watch: [] })
  const { step, parts, flops } = simulation
  const { mfu, hfu } = core.ratesOf(step, core.workOfJob({ job: job(text), program: compiled, cluster, simulation }))
  const names = Object.keys(parts) as (keyof typeof parts)[] // every part is a key
  return {
    seconds: step,
    shares: Object.fromEntries(names.map(name => [name, parts[name] / step])) as Simulation['parts'],
    ...{ flops, mfu, hfu },
  }
}

const vocabOf = ({ model }: ParsedJob): number => ('vocab' in model ? model.vocab : 32)

function apartOf(core: Core, job: ParsedJob): number {
  const options = { steps: 2, seed: 1, lr: 1e-3, eps: 1e-8, vocab: vocabOf(job) }
  const serial = core.runSerial(core.compileJob(core.serialJob(job), undefined, unverified), options)
  return (
    10 **
    Math.ceil(
      Math.log10(
        Math.max(1e-15, core.worstOf(core.compare(core.compileJob(job, undefined, unverified), serial, options))),
      ),
    )
  )
}

function lossesOf({ core, job, program }: Base, text: JobText, { lr, steps }: { lr: number; steps: number }): number[] {
  const compiled = program(text)
  const runner = core.boot(compiled, { seed: 1, precision: 'f32' })
  const inputs = core.syntheticData(core.inputsOf(compiled), vocabOf(job(text)), 1)(0)
  return Array.from({ length: steps }, (_, step) => runner.step({ inputs, lr, step }).loss)
}

/** `lockstep memory -` with a job on its standard input. */
export const onJob = (text: JobText, command: string): string => `echo '${JSON.stringify(text)}' | lockstep ${command}`
