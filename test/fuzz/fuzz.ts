/** Takes jobs through all stages, counts what each stage did, and reports a failure as the smallest job that fails likewise. */
import type { Job, JobInput } from '../../src/plan/index.js'
import type { Drawn } from './draw.js'
import { shrunk } from './shrink.js'
import { checked, stages as everyStage, type Stages, type Tools } from './stages.js'
import { subjectOf } from './subject.js'

export interface Failure {
  readonly seed: number
  readonly stage: string
  readonly reason: string
  /** As it was drawn, and made smaller. */
  readonly drawn: JobInput
  readonly smallest: JobInput
}

export interface Tally {
  passed: number
  /** It did not apply to the job. */
  skipped: number
  failed: number
}

export interface Summary {
  drawn: number
  accepted: number
  failed: number
  readonly stages: Readonly<Record<string, Tally>>
}

export interface FuzzOptions {
  readonly tools: Tools
  readonly stages?: Stages
  /** How long a failing job is made smaller. */
  readonly shrinkSeconds?: number
  readonly isStopped?: () => boolean
}

/** What it says, and the frames nearest to where it was thrown. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const frames = (error.stack ?? '').split('\n').filter(line => /^ +at /.test(line))
  return [error.message.trim(), ...frames.slice(0, 3)].join('\n')
}

/** The last line of a Python traceback or the first of an error, without names and numbers: a smaller job must fail for the same reason. */
function kindOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  const lines = message.trim().split('\n')
  const line = lines[0].startsWith('Traceback') ? lines[lines.length - 1] : lines[0]
  return line.replace(/[\w.+-]*[\d.][\w.+-]*/g, '#')
}

export class Fuzzer {
  readonly summary: Summary
  readonly #tools: Tools
  readonly #stages: Stages
  readonly #shrinkMs: number
  readonly #isStopped: () => boolean

  constructor({ tools, stages = everyStage, shrinkSeconds = 120, isStopped = () => false }: FuzzOptions) {
    this.#tools = tools
    this.#stages = stages
    this.#shrinkMs = 1000 * shrinkSeconds
    this.#isStopped = isStopped
    const names = ['check', ...Object.keys(stages)]
    const tallies = Object.fromEntries(names.map(name => [name, { passed: 0, skipped: 0, failed: 0 }]))
    this.summary = { drawn: 0, accepted: 0, failed: 0, stages: tallies }
  }

  /** Takes a job through all stages, until one fails. */
  async take({ seed, input }: Pick<Drawn, 'seed' | 'input'>): Promise<Failure | undefined> {
    this.summary.drawn++
    const [stage, error] = (await this.#firstError(input)) ?? []
    if (stage === undefined) return undefined
    this.summary.failed++
    return { seed, stage, reason: reasonOf(error), drawn: input, smallest: await this.#smallest(input, stage, error) }
  }

  async #firstError(input: JobInput): Promise<[stage: string, error: unknown] | undefined> {
    let job: Job | undefined
    const check = await this.#counted('check', () => {
      job = checked(input)
      return undefined
    })
    if (check) return ['check', check.error]
    if (!job) return undefined
    this.summary.accepted++
    const subject = subjectOf(job)
    for (const [name, run] of Object.entries(this.#stages)) {
      if (this.#isStopped()) return undefined
      const failed = await this.#counted(name, () => run(subject, this.#tools))
      if (failed) return [name, failed.error]
    }
    return undefined
  }

  async #counted(name: string, run: () => ReturnType<Stages[string]>): Promise<{ error: unknown } | undefined> {
    const tally = this.summary.stages[name]
    try {
      tally[(await run()) === undefined ? 'passed' : 'skipped']++
      return undefined
    } catch (error) {
      if (this.#isStopped()) return undefined // an interrupt ends the processes of a stage
      tally.failed++
      return { error }
    }
  }

  #smallest(input: JobInput, stage: string, error: unknown): Promise<JobInput> {
    const end = performance.now() + this.#shrinkMs
    const mayGoOn = () => !this.#isStopped() && performance.now() < end
    const fails = async (smaller: JobInput) => {
      const found = await this.#errorOf(stage, smaller)
      return found !== undefined && kindOf(found) === kindOf(error)
    }
    return shrunk(input, fails, mayGoOn)
  }

  /** What a stage by itself says of a job that `check` accepts. */
  async #errorOf(stage: string, input: JobInput): Promise<unknown> {
    let job: Job | undefined
    try {
      job = checked(input)
    } catch (error) {
      return stage === 'check' ? error : undefined
    }
    if (!job || stage === 'check') return undefined
    try {
      await this.#stages[stage](subjectOf(job), this.#tools)
      return undefined
    } catch (error) {
      return error
    }
  }
}
