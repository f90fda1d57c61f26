/** Checkpoints as commands know them: asked for by four options, found, held against a job, loaded and written. */
import { dirname, join } from 'node:path'
import { type Command, Option } from 'commander'
import { error, type Problem, ProblemsError } from '../../base/index.js'
import {
  type Checkpoint,
  checkpointProblems,
  loadCheckpoint,
  type Position,
  printCheckpoint,
  readCheckpoint,
  type Share,
} from '../../checkpoint/index.js'
import { cursorAt, type Dataset } from '../../data/index.js'
import type { Trainer } from '../../engine/index.js'
import type { Program } from '../../ir/index.js'
import type { Job } from '../../plan/index.js'
import type { Session } from '../../train/index.js'
import type { Io } from '../io.js'
import { positive } from '../text/integer.js'
import { save, writing } from './run-folder.js'

/** The same names as those of an emitted program. */
export interface CheckpointOptions {
  readonly save?: string
  readonly saveEvery?: number
  readonly resume?: string
  readonly init?: string
}

export const withCheckpointOptions = (command: Command): Command =>
  command
    .option('--save <folder>', 'write a checkpoint there after the last step')
    .option('--save-every <n>', 'and after every n steps (into the run folder, where --save names no other)', positive)
    .addOption(
      new Option(
        '--resume <checkpoint>',
        'go on from a checkpoint of any plan, or from the last one in a folder of them',
      ).conflicts('init'),
    )
    .option('--init <checkpoint>', 'start with the weights of a checkpoint, at step 1')

/** What a run begins with, if not with the weights its seed gives. */
export interface Beginning {
  readonly path: string
  readonly checkpoint: Checkpoint
  readonly share: Share
}

export const takenBy = (beginning: Beginning | undefined): number =>
  beginning?.share === 'everything' ? beginning.checkpoint.step : 0

export const beginningText = ({ path, share, checkpoint: { step } }: Beginning): string =>
  share === 'everything' ? `Goes on from ${path}, after step ${step}.` : `Starts with the weights of ${path}.`

export function beginningOf({ resume, init }: CheckpointOptions, io: Io): Beginning | undefined {
  const asked = resume ?? init
  if (asked === undefined) return undefined
  const path = completeIn(asked, io)
  const share = resume === undefined ? 'weights' : 'everything'
  return { path, share, checkpoint: reading(path, () => readCheckpoint(readerOf(path, io))) }
}

const readerOf =
  (path: string, io: Io) =>
  (file: string, begin: number, end: number): Uint8Array =>
    io.readBytes(join(path, file), begin, end)

const refusal = (message: string, suggestion?: string): ProblemsError =>
  new ProblemsError([error('checkpoint/damaged', '', message, suggestion)])

function reading<T>(path: string, work: () => T): T {
  try {
    return work()
  } catch (e) {
    throw refusal(`${path}: ${e instanceof Error ? e.message : String(e)}`)
  }
}

/** The folder itself, or the last of the checkpoints in it that have got their names: those are whole. */
function completeIn(asked: string, io: Io): string {
  if (io.exists(join(asked, 'manifest.json'))) return asked
  if (!io.exists(asked)) throw refusal(`there is no ${asked}`)
  const files = reading(asked, () => io.list(asked)) ?? []
  const stepOf = (file: string) => Number(/[/\\]step-(\d+)[/\\]manifest\.json$/.exec(file)?.[1] ?? Number.NaN)
  const [last] = files.filter(file => stepOf(file) >= 0).sort((a, b) => stepOf(b) - stepOf(a))
  if (last !== undefined) return dirname(last)
  throw refusal(
    `${asked} holds no checkpoint`,
    'name a folder with a manifest.json in it, or the folder of such folders',
  )
}

/** Everything but damage, which shows when it is read. */
export function beginningProblems(
  beginning: Beginning,
  program: Program,
  { training }: Job,
  dataset: Dataset,
): Problem[] {
  const { checkpoint, share } = beginning
  const problems = checkpointProblems(program, checkpoint, share)
  if (share === 'everything') problems.push(...positionProblems(checkpoint, training, dataset))
  return inCheckpoint(beginning, problems)
}

export const inCheckpoint = ({ path }: Beginning, problems: readonly Problem[]): Problem[] =>
  problems.map(problem => ({ ...problem, message: `${path}: ${problem.message}` }))

/** A run that goes on must draw the same masks and find the data where it left them. */
function positionProblems(position: Position, training: Job['training'], { train, fingerprint }: Dataset): Problem[] {
  const { step, seed, data } = position
  const { samples } = cursorAt(train, training, { step, fingerprint })
  const anew = 'start anew from its weights with --init'
  return [
    ...(seed === training.seed
      ? []
      : [
          error(
            'checkpoint/seed',
            'training.seed',
            `the checkpoint’s seed is ${seed}, the job’s ${training.seed}`,
            `try --seed ${seed}, or ${anew}`,
          ),
        ]),
    ...(data === undefined || data.fingerprint === fingerprint
      ? []
      : [
          error(
            'checkpoint/data',
            'data',
            'the checkpoint was trained on other data, or on sequences cut otherwise',
            anew,
          ),
        ]),
    ...(data === undefined || data.samples === samples
      ? []
      : [
          error(
            'checkpoint/batch',
            'training.globalBatch',
            `the checkpoint has seen ${data.samples} sequences in ${step} steps, but ${step} steps x globalBatch ${training.globalBatch} = ${samples}`,
            anew,
          ),
        ]),
  ]
}

/** Throws what is wrong with it, all of it; the trainer is then of no use. */
export function load(beginning: Beginning, program: Program, trainer: Trainer): void {
  const { checkpoint, share } = beginning
  const problems = loadCheckpoint(program, checkpoint, share, (shard, values) => trainer.hold(shard, values))
  if (problems.length > 0) throw new ProblemsError(inCheckpoint(beginning, problems))
}

/** Where checkpoints of a run go, and how often. */
export interface Saving {
  readonly folder: string
  /** 0: only after the last step. */
  readonly every: number
}

export const savingOf = ({ save, saveEvery }: CheckpointOptions, runFolder: string): Saving | undefined =>
  save === undefined && saveEvery === undefined
    ? undefined
    : { folder: save ?? join(runFolder, 'checkpoints'), every: saveEvery ?? 0 }

/** All of it, under its name; or, if that fails, nothing. Returns where it is. */
export function saveCheckpoint(folder: string, step: number, session: Session, io: Io): string {
  const path = join(folder, `step-${String(step).padStart(8, '0')}`)
  const partial = `${path}.partial`
  const { job, program, trainer, dataset } = session
  const { seed } = job.training
  const data = cursorAt(dataset.train, job.training, { step, fingerprint: dataset.fingerprint })
  try {
    writing(partial, () => {
      io.remove(partial) // of a run that was ended while it wrote
      io.makeFolder(partial)
    })
    for (const [name, content] of printCheckpoint(program, { step, seed, data }, shard => trainer.held(shard)))
      save(join(partial, name), content, io)
    writing(path, () => io.rename(partial, path))
    return path
  } catch (e) {
    io.remove(partial)
    throw e
  }
}
