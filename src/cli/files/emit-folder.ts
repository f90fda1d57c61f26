/** The folder of an emitted run, written: what `emit` and `launch` share. */
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { basename, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { error, ProblemsError, printable, sequencesUntil, type Watcher } from '../../base/index.js'
import type { Checkpoint, Heading } from '../../checkpoint/index.js'
import { compileJob } from '../../compile/index.js'
import { type Dataset, heldOutFrom, type Ids } from '../../data/index.js'
import { emitting, type Files, type Run, type RunData } from '../../emit/index.js'
import { type Job, mappingOf, mostSkipsOf } from '../../plan/index.js'
import {
  alignmentOf,
  type Beginning,
  beginningProblems,
  earlierPrograms,
  evaluationOf,
  flopsIn,
  openData,
  textsWith,
  unitSettings,
} from '../../train/index.js'
import { convertedCheckpoint } from '../../weights/index.js'
import type { Io } from '../io.js'
import { besides } from './beside.js'
import { type Content, writeFolder } from './folder-record.js'
import { portable } from './load.js'
import type { Loaded } from './program.js'

const runtimeFolder = fileURLToPath(new URL('../../../../src/emit/runtime', import.meta.url))
const tokenFile = 'tokens.bin'
const choiceFile = 'choices.jsonl'

/** The hand-written part: Python that lies in the repository as Python. */
export const runtimeFiles = (): Files =>
  Object.fromEntries(
    readdirSync(runtimeFolder)
      .filter(name => name.endsWith('.py'))
      .sort()
      .map(name => [name, readFileSync(join(runtimeFolder, name), 'utf8')]),
  )

export interface EmittedFolder {
  readonly folder: string
  /** Paths below it. */
  readonly files: readonly string[]
  readonly data: string
}

export interface Target {
  /** The path of the job. */
  readonly path: string
  readonly folder: string
  /** The checkpoint it will be told to start from; or, if it carries it along, as it does a Hugging Face folder, starts from by itself. */
  readonly beginning?: Beginning | undefined
  readonly carries?: boolean
  /** What a simulation said of a step. */
  readonly expected?: Run['expected'] | undefined
  /** Plans for other numbers of ranks. */
  readonly others?: readonly Job[]
  /** Whether the program of another job in the folder is overwritten (--force). */
  readonly replaces?: boolean | undefined
  readonly io: Io
  readonly watcher: Watcher
}

export async function writeEmitted({ job, program, schedule }: Loaded, target: Target): Promise<EmittedFolder> {
  const { path, folder, beginning, carries, expected, others = [], replaces, io, watcher } = target
  if (io.exists(join(folder, 'metrics.jsonl')))
    throw new ProblemsError([
      error('emit/exists', '', `${folder} holds the metrics of another run`, 'name another folder with --out'),
    ])
  const { dataset, ids, tokenizer } = await openData(job, io, { locate: name => besides(path, name), watcher })
  const problems = beginning ? beginningProblems(beginning, program, job, dataset) : []
  if (problems.length > 0) throw new ProblemsError(problems)
  const texts = textsWith(beginning, tokenizer)
  const run = {
    ...runOf(portable(job, path), path, dataset, ids),
    ...(tokenizer === undefined ? {} : { tokenizer, texts }),
    ...(expected && { expected }),
  }
  const evaluation = evaluationOf(job, dataset, schedule)
  const earlier = Object.fromEntries(earlierPrograms(job))
  const fewer = others.map(other => ({
    program: compileJob(other),
    evaluation: evaluationOf(other, dataset, undefined),
    earlier: Object.fromEntries(earlierPrograms(other)),
  }))
  if (!replaces) requireSameJob(folder, run, io)
  watcher.expect({ emitting: 1 })
  const files = await watcher.run('emitting', emitting(program, run, runtimeFiles(), evaluation, earlier, fewer))
  watcher.say('writing the files')
  const contents = {
    ...files,
    ...(ids && { [tokenFile]: bytesOf(ids) }),
    ...(job.data?.routing !== undefined && { [choiceFile]: { copyOf: besides(path, job.data.routing) } }),
    ...(beginning && (beginning.weights || beginning.adapters !== undefined)
      ? converted(beginning.checkpoint, { job: run.job, name: program.name, tokenizer, texts })
      : beginning && carries
        ? copiesOf(beginning)
        : {}),
  }
  writeFolder(folder, contents, { io, later: ['metrics.jsonl', 'torchrun.log'] })
  return { folder, files: Object.keys(contents), data: dataset.description }
}

/** Refuses a folder with the program of another job: one with another name or another model. */
function requireSameJob(folder: string, { title, job }: Run, io: Io): void {
  const before = jsonIn(join(folder, 'run.json'), io)
  if (before === undefined) return
  const theirs = jsonIn(join(folder, 'job.json'), io)
  const model = JSON.stringify(mappingOf(theirs).model)
  const ours = JSON.stringify(mappingOf(job).model)
  const name = String(mappingOf(before).title)
  if (name === title && model === ours) return
  const which = name === title ? `another model under the name ${printable(name)}` : `the job ${printable(name)}`
  throw new ProblemsError([
    error(
      'emit/exists',
      '',
      `${folder} holds the program of ${which}`,
      'name another folder with --out, or overwrite it with emit --force',
    ),
  ])
}

function jsonIn(path: string, io: Io): unknown {
  if (io.kindOf(path) !== 'file') return undefined
  try {
    return JSON.parse(io.read(path))
  } catch {
    return undefined // not ours: writeFolder says so
  }
}

/** The files of the folder `init`, and those of the checkpoint they are copies of. */
function copiesOf({ path, checkpoint }: Beginning): Record<string, Content> {
  return Object.fromEntries(
    ['manifest.json', ...checkpoint.files].map(file => [`init/${file}`, { copyOf: join(path, file) }]),
  )
}

/** The same of a Hugging Face folder, or of adapters beside weights, as a checkpoint that the runtime reads. */
function converted(
  weights: Checkpoint,
  heading: Pick<Heading, 'job' | 'name' | 'tokenizer' | 'texts'>,
): Record<string, Content> {
  const { names, files } = convertedCheckpoint(weights, { run: randomUUID(), step: 0, seed: 0, ...heading })
  const made = files()
  const next = () => made.next().value?.[1] ?? ''
  return Object.fromEntries(names.map(name => [`init/${name}`, { made: next }]))
}

const bytesOf = (ids: Ids): Uint8Array => new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength)

export function runOf(job: Job, path: string, dataset: Dataset, ids: Ids | undefined): Run {
  const { plan, training } = job
  const batches = Math.min(training.evalBatches, Math.ceil(dataset.heldOut.count / training.globalBatch))
  const units = unitSettings(job)
  return {
    title: job.name ?? basename(path, extname(path)),
    seed: training.seed,
    steps: training.steps,
    globalBatch: training.globalBatch,
    ...(plan.compress?.reduce && plan.compress.from > 0 && { compressFrom: plan.compress.from }),
    ...(training.batchRamp && {
      batchRamp: training.batchRamp.map(earlier => ({
        globalBatch: earlier.globalBatch,
        until: sequencesUntil(earlier, training.seq),
      })),
    }),
    seq: training.seq,
    learningRate: { lr: training.optimizer.lr, ...training.lrSchedule },
    ...(training.spikes && { spikes: training.spikes }),
    ...(training.skipAbove !== undefined && { skipAbove: training.skipAbove }),
    mostSkips: mostSkipsOf(training),
    ...(training.lossScale && 'min' in training.lossScale && { leastScale: Math.fround(training.lossScale.min) }),
    data: dataOf(job, dataset, ids),
    ...(dataset.documents && { documents: dataset.documents }),
    ...(job.data?.routing !== undefined && { choices: choiceFile }),
    ...(units && { units }),
    fingerprint: dataset.fingerprint,
    ...(batches > 0 && { evaluation: { every: training.evalEvery, batches } }),
    job,
    flopsPerToken: flopsIn(job, dataset),
  }
}

function dataOf(job: Job, { train, heldOut }: Dataset, ids: Ids | undefined): RunData {
  const { model, data } = job
  if (ids)
    return {
      kind: 'tokens',
      file: tokenFile,
      width: ids.BYTES_PER_ELEMENT as 1 | 2 | 4, // all that Ids can be
      samples: train.count,
      heldOut: { firstToken: heldOutFrom(ids, data?.evalFraction ?? 0, alignmentOf(job).pad), samples: heldOut.count },
    }
  return model.family === 'mlp'
    ? { kind: 'rotations', embed: model.embed }
    : { kind: 'progressions', vocab: model.vocab }
}
