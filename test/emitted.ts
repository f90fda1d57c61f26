/** Emitted folders for tests: written to a temporary place, and run under torchrun. */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { runOf, runtimeFiles } from '../src/cli/files/emit-folder.js'
import { compileEvaluation, compileJob } from '../src/compile/index.js'
import { type Batch, batchAt, batchesInOrder } from '../src/data/index.js'
import { emit } from '../src/emit/index.js'
import { boot, handOver, type Interpreter, type Options } from '../src/engine/index.js'
import type { Program } from '../src/ir/index.js'
import { type Job, lrAt, nameOfPhase, phaseOfStep } from '../src/plan/index.js'
import { earlierPrograms, syntheticOf } from '../src/train/index.js'
import { oneThread } from './python.js'

export const temporaryFolder = (): string => mkdtempSync(join(tmpdir(), 'lockstep-emit-'))

export function writeFiles(folder: string, files: Readonly<Record<string, string | Uint8Array>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), content)
  }
}

/** The program that trains and the one that judges. */
export interface Programs {
  readonly training: Program
  readonly judging: Program
}

export const programsOf = (job: Job): Programs => ({ training: compileJob(job), judging: compileEvaluation(job) })

/** `others`: the job planned for other numbers of ranks. */
export const emittedFiles = (
  job: Job,
  { training, judging }: Programs = programsOf(job),
  others: readonly Job[] = [],
) =>
  emit(
    ...([training, runOf(job, 'job.yaml', syntheticOf(job), undefined), runtimeFiles(), judging] as const),
    Object.fromEntries(earlierPrograms(job)),
    others.map(other => ({ program: compileJob(other), evaluation: compileEvaluation(other) })),
  )

export function writeEmittedJob(folder: string, job: Job, others: readonly Job[] = []): void {
  writeFiles(folder, emittedFiles(job, programsOf(job), others))
}

export interface Expected {
  readonly losses: readonly number[]
  readonly norms: readonly number[]
  /** Over the held-out batches, after the last step. */
  readonly heldOut: number
  parameter(name: string): ArrayLike<number>
  readonly names: readonly string[]
}

interface Running {
  readonly program: Program
  readonly runner: Interpreter
}

/** What the definition computes of the same program on the same data: with all digits, or rounded as it is stored. */
export function expectedOf(
  job: Job,
  steps: number,
  precision: 'f64' | 'f32' = 'f64',
  { training, judging }: Programs = programsOf(job),
): Expected {
  const { seed, globalBatch, evalBatches } = job.training
  const { train, heldOut } = syntheticOf(job)
  const earlier = earlierPrograms(job)
  const programAt = (step: number) => earlier.get(nameOfPhase(phaseOfStep(job, step))) ?? training
  let machine: Running = { program: programAt(0), runner: boot(programAt(0), { seed, precision }) }
  const results = Array.from({ length: steps }, (_, step) => {
    if (step > 0 && programAt(step) !== programAt(step - 1))
      machine = handedOver(machine, programAt(step), { seed, precision })
    return machine.runner.step({ inputs: batchAt(train, job.training, step), lr: lrAt(job.training, step), step })
  })
  return {
    losses: results.map(({ loss }) => loss),
    norms: results.map(({ normSquared }) => Math.sqrt(normSquared)),
    heldOut: judged(judging, { seed, precision }, machine.runner, batchesInOrder(heldOut, globalBatch, evalBatches)),
    parameter: machine.runner.parameter,
    names: training.params.map(({ name }) => name),
  }
}

/** A machine of another program that goes on where this one is. */
function handedOver(from: Running, program: Program, options: Options): Running {
  const next = { program, runner: boot(program, options) }
  handOver(from, next)
  return next
}

function judged(program: Program, options: Options, trained: Interpreter, batches: readonly Batch[]): number {
  const judge = boot(program, options)
  for (const { name } of program.params) judge.setParameter(name, trained.states(name).ema ?? trained.parameter(name))
  const results = batches.map(inputs => judge.step({ inputs, lr: Number.NaN, step: 0 }))
  const sum = (key: 'lossSum' | 'count') => results.reduce((total, result) => total + result[key], 0)
  return sum('lossSum') / sum('count')
}

export interface Finished {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

/** A process, to its end. */
export function finished(command: string, args: readonly string[], options: { cwd?: string; env?: object } = {}) {
  const env = { ...oneThread, TORCH_CPP_LOG_LEVEL: 'ERROR', ...options.env }
  const child = spawn(command, args, { env, ...(options.cwd === undefined ? {} : { cwd: options.cwd }) })
  const said = { out: '', err: '' }
  child.stdout.on('data', data => {
    said.out += data
  })
  child.stderr.on('data', data => {
    said.err += data
  })
  const done = new Promise<Finished>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', code => resolve({ code, ...said }))
  })
  return { child, said, done }
}

/** Who works in a folder, and whose child that is. */
export const processesIn = (folder: string): { pid: number; parent: number }[] =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .flatMap(pid => {
      try {
        if (readlinkSync(`/proc/${pid}/cwd`) !== folder) return []
        const [, parent] = readFileSync(`/proc/${pid}/status`, 'utf8').match(/^PPid:\s+(\d+)$/m)!
        return [{ pid: Number(pid), parent: Number(parent) }]
      } catch {
        return [] // it has ended, or is not ours to look at
      }
    })

/** The ranks among them: torchrun is there, too, and has started them. */
export const ranksIn = (folder: string): number[] => {
  const found = processesIn(folder)
  return found.filter(({ parent }) => found.some(({ pid }) => pid === parent)).map(({ pid }) => pid)
}
