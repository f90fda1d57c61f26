/** The checkpoint a run begins with: found, checked against its job, and loaded. */
import { error, type Files, type Problem, ProblemsError, warning } from '../base/index.js'
import {
  type Checkpoint,
  checkpointProblems,
  loadCheckpoint,
  type Position,
  type Share,
  type Texts,
} from '../checkpoint/index.js'
import { cursorAt, type Dataset } from '../data/index.js'
import { resumedScalars, type Trainer } from '../engine/index.js'
import type { Program } from '../ir/index.js'
import { modelDifferences } from '../model/index.js'
import { adaptersOf, Job } from '../plan/index.js'
import {
  besideWeights,
  exportTarget,
  isWeightFolder,
  openAdapters,
  type Trained,
  type WeightSource,
  weightSource,
} from '../weights/index.js'
import { markLoad } from './loading.js'
import { type DamagedCheckpoint, foundAt, problemsOf } from './newest.js'

/** The checkpoint or weights that a run starts from. */
export interface Beginning {
  readonly path: string
  readonly checkpoint: Checkpoint
  readonly share: Share
  /** Newer ones that were skipped. */
  readonly damaged?: readonly DamagedCheckpoint[]
  /** The same, if it is a Hugging Face folder. */
  readonly weights?: WeightSource
  /** The folder of its adapters. */
  readonly adapters?: string
  /** Called before it is loaded; returns a function to call when that is done. */
  readonly loading?: () => () => void
}

/** What a run carries on of how its model is used. Special tokens and the template of a chat are those of a tokenizer: another one has others. */
export const textsWith = (beginning: Beginning | undefined, tokenizer: string | undefined): Texts =>
  beginning && tokenizer !== undefined && beginning.checkpoint.tokenizer() === tokenizer
    ? beginning.checkpoint.texts()
    : {}

/** Steps that were behind it, those that were skipped included. */
export const stepsBehind = (beginning: Beginning | undefined): number =>
  beginning?.share === 'everything' ? beginning.checkpoint.step : 0

export const beginningText = ({ path, share, adapters, checkpoint: { step } }: Beginning): string =>
  share === 'everything'
    ? `Resumes from ${path}, after step ${step}.`
    : `Starts with the weights of ${path}${adapters === undefined ? '' : ` and the adapters of ${adapters}`}.`

/** The checkpoint to resume from, or whose weights to start with; a folder of checkpoints means the last one. */
export interface Origin {
  readonly resume?: string
  /** May be a Hugging Face folder too. */
  readonly init?: string
  /** A folder of PEFT: adapters to put beside the weights. */
  readonly adapters?: string
}

/**
 * Reads the checkpoint to resume from: of a folder the latest complete one. Throws if there is none. `job`: the job
 * that resumes.
 */
export function beginningOf(origin: Origin, files: Files, job?: Job): Beginning | undefined {
  const { init, adapters } = origin
  if (adapters !== undefined && init === undefined)
    throw new ProblemsError([error('weights/adapters', '--adapters', 'beside which weights?', 'name them with --init')])
  const found = wholeAt(origin, files, job)
  return found && adapters !== undefined ? besideThem(found, adapters, files, job) : found
}

function wholeAt({ resume, init }: Omit<Origin, 'adapters'>, files: Files, job?: Job): Beginning | undefined {
  const asked = resume ?? init
  if (asked === undefined) return undefined
  if (isWeightFolder(asked, files)) return weightsAt(asked, files, resume === undefined, job)
  const share = resume === undefined ? 'weights' : 'everything'
  const { good, damaged } = foundAt(asked, files, share)
  return { ...good, share, ...(damaged.length > 0 && { damaged }), loading: () => markLoad(good.path, files) }
}

/** `job`: who begins with them, whose training must have the same adapters. */
function besideThem(found: Beginning, path: string, files: Files, job: Job | undefined): Beginning {
  const held = found.weights?.folder.map ?? exportTarget(trainedOf(found), undefined).map
  const folder = openAdapters(path, files, held)
  const { rank, alpha, targets } = folder.adapters
  const asked = job && adaptersOf(job)
  const isSame = asked?.rank === rank && asked.alpha === alpha && asked.targets.join() === targets.join()
  if (job && !isSame) {
    const wanted = `lora: { rank: ${rank}, alpha: ${alpha}, targets: [${targets.join(', ')}] }`
    const has = asked
      ? `the job’s have rank ${asked.rank}, alpha ${asked.alpha}, of ${asked.targets.join(', ')}`
      : 'the job has none'
    const message = `adapters of ${path} have rank ${rank}, alpha ${alpha}, of ${targets.join(', ')}; ${has}`
    throw new ProblemsError([error('weights/adapters', 'training.lora', message, `try ${wanted}`)])
  }
  return { ...found, checkpoint: besideWeights(found.checkpoint, folder), adapters: path }
}

function trainedOf({ path, checkpoint }: Beginning): Trained {
  const parsed = Job.safeParse(checkpoint.job())
  if (!parsed.success)
    throw new ProblemsError([error('checkpoint/damaged', '', `${path}: job.json was written by a different version`)])
  const { model, training } = parsed.data
  if (training.lora)
    throw new ProblemsError([
      error('weights/adapters', '--adapters', `${path} has adapters of its own`, 'export them merged first'),
    ])
  return { model, seq: training.seq }
}

function weightsAt(path: string, files: Files, isStart: boolean, job: Job | undefined): Beginning {
  if (!isStart) {
    const message = `${path} is a Hugging Face folder: it has weights, but no state to resume from`
    throw new ProblemsError([error('weights/model', '', message, 'start from its weights with --init')])
  }
  const weights = weightSource(path, files, job && { seq: job.training.seq })
  return { path, checkpoint: weights, share: 'weights', weights }
}

/** Checkpoints that were passed over because they are damaged, as warnings. */
export const passedOver = ({ damaged = [], path }: Beginning): Problem[] =>
  damaged.flatMap(problemsOf).map(({ code, message }) => warning(code, '', message, `${path} is used instead`))

/** These, and what is unusual about the weights of others. */
export const beginningWarnings = (beginning: Beginning, { model }: Job): Problem[] => {
  const { path, weights } = beginning
  const differences = weights ? modelDifferences(model, weights.folder.config) : []
  return [
    ...passedOver(beginning),
    ...(weights?.folder.warnings ?? []).map(problem => ({ ...problem, path: '' })),
    ...(differences.length > 0
      ? [warning('weights/model', 'model', `not that of ${path}: ${differences.join(', ')}`, `try model: ${path}`)]
      : []),
  ]
}

/** Everything but damage, which was looked for before. */
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
  const anew = 'start a new run from its weights with --init'
  return [
    ...(seed === training.seed
      ? []
      : [
          error(
            'checkpoint/seed',
            'training.seed',
            `the seed of the checkpoint is ${seed}, the job’s ${training.seed}`,
            `try --seed ${seed}, or ${anew}`,
          ),
        ]),
    ...(data === undefined || data.fingerprint === fingerprint
      ? []
      : [
          error(
            'checkpoint/data',
            'data',
            'the checkpoint was trained on different data, or on different sequences',
            anew,
          ),
        ]),
    ...(data === undefined || data.samples === samples
      ? []
      : [
          error(
            'checkpoint/batch',
            'training.globalBatch',
            `the checkpoint has seen ${data.samples} sequences in ${step} steps, but ${training.batchRamp ? `by batchRamp these see ${samples}` : `${step} steps x globalBatch ${training.globalBatch} = ${samples}`}`,
            anew,
          ),
        ]),
  ]
}

/** Throws what is wrong with it, all of it; the trainer is then of no use. */
export function load(beginning: Beginning, program: Program, trainer: Trainer): void {
  const { checkpoint, share } = beginning
  const loaded = beginning.loading?.()
  const problems = loadCheckpoint(program, checkpoint, share, (shard, values) => trainer.hold(shard, values))
  if (share === 'everything') trainer.setScalars(resumedScalars(program, checkpoint.scalars))
  loaded?.()
  if (problems.length > 0) throw new ProblemsError(inCheckpoint(beginning, problems))
}
