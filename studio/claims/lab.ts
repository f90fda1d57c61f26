/** Where claims are settled: jobs compiled, simulated and run, each once however many claims ask. */
import type { Program, Simulation } from 'lockstep'
import { type Core, core as ours } from './core.js'

/** A job as a file says it; models are named. */
export interface JobText {
  readonly model: string | Readonly<Record<string, unknown>>
  readonly training: Readonly<Record<string, unknown>>
  readonly plan?: Readonly<Record<string, unknown>>
}

/** Bytes of one rank, by kind: of the rank with most of each. */
export type Bytes = Program['streams'][number]['peak']

type Parsed = NonNullable<ReturnType<Core['parseJob']>['job']>
type Tally = ReturnType<Core['tallyOf']>

export interface Lab {
  readonly core: Core
  readonly job: (text: JobText) => Parsed
  readonly program: (text: JobText) => Program
  readonly tally: (text: JobText) => Tally
  readonly bytes: (text: JobText) => Bytes
  /** A step on as many devices as the plan has ranks. */
  readonly step: (text: JobText, device: string, options?: StepOptions) => StepTimes
  /** How far parallel ranks are from one rank, in f64, after two steps. */
  readonly apart: (text: JobText) => number
}

export interface StepOptions {
  /** Ranks that are slower, and how many times. */
  readonly slow?: Readonly<Record<number, number>>
  /** Ranks to a domain of fast links, where it is not the maker's. */
  readonly perNode?: number
}

export interface StepTimes {
  readonly seconds: number
  readonly parts: Simulation['parts']
  readonly flops: Simulation['flops']
  /** Model FLOPs over what all devices could do in the time. */
  readonly mfu: number
}

function remembered<A extends readonly unknown[], T>(make: (...args: A) => T): (...args: A) => T {
  const made = new Map<string, T>()
  return (...args) => {
    const key = JSON.stringify(args)
    if (!made.has(key)) made.set(key, make(...args))
    return made.get(key)!
  }
}

export const worldOf = ({ plan }: Pick<Parsed, 'plan'>): number => plan.dp * plan.tp * plan.pp * plan.cp

export function labOf(core: Core = ours): Lab {
  const job = remembered((text: JobText) => {
    const { job, problems } = core.parseJob(JSON.stringify(text))
    if (!job) throw new Error(problems.map(({ path, message }) => `${path}: ${message}`).join('\n'))
    return job
  })
  const program = remembered((text: JobText) => core.compileJob(job(text)))
  return {
    ...{ core, job, program },
    tally: remembered(text => core.tallyOf(program(text))),
    bytes: remembered(text => mostOf(program(text).streams.map(({ peak }) => peak))),
    step: remembered((text, device, options = {}) => stepOf({ core, job, program }, text, { device, ...options })),
    apart: remembered(text => apartOf(core, job(text))),
  }
}

function mostOf(peaks: readonly Bytes[]): Bytes {
  const names = Object.keys(peaks[0]) as (keyof Bytes)[] // every kind is a key
  return Object.fromEntries(names.map(name => [name, Math.max(...peaks.map(peak => peak[name]))])) as Bytes
}

/** What a rank keeps from step to step, and the gradient. */
export const stateBytes = ({ parameters, gradients, optimizer }: Bytes): number => parameters + gradients + optimizer

function stepOf(
  { core, job, program }: Pick<Lab, 'core' | 'job' | 'program'>,
  text: JobText,
  { device, slow = {} }: StepOptions & { readonly device: string },
): StepTimes {
  const parsed = job(text)
  const compiled = program(text)
  const cluster = core.clusterOf(device, worldOf(parsed))
  const slowed = new Map(Object.entries(slow).map(([rank, factor]) => [Number(rank), factor]))
  const { step, parts, flops } = core.simulate(compiled, core.clusterPrices(compiled, cluster), {
    slow: slowed,
    watch: [],
  })
  const useful = flops.executed - flops.repeated
  const peak = cluster.device.peak.bf16 ?? Number.NaN
  return { seconds: step, parts, flops, mfu: useful / (step * cluster.devices * peak) }
}

function apartOf(core: Core, job: Parsed): number {
  const vocab = 'vocab' in job.model ? job.model.vocab : 32
  const options = { steps: 2, seed: 1, lr: 1e-3, eps: 1e-8, vocab }
  const serial = core.runSerial(core.compileJob(core.serialJob(job)), options)
  return core.worstOf(core.compare(core.compileJob(job), serial, options))
}

/** `lockstep memory -` with a job on its standard input. */
export const onJob = (text: JobText, command: string): string => `echo '${JSON.stringify(text)}' | lockstep ${command}`
