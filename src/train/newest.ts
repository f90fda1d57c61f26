/**
 * The newest checkpoint that is whole. What a run goes on from is read to its last bit before any rank starts: one that is
 * damaged is passed over for the one before it, and said with file, tensor and rank.
 */
import { error, type Files, type Problem, ProblemsError, within } from '../base/index.js'
import { type Checkpoint, type Damage, damageProblems, readCheckpoint, type Share } from '../checkpoint/index.js'
import { timesCrashed } from './loading.js'

/** A checkpoint that is not what was written, or that nobody could load. */
export interface DamagedCheckpoint {
  readonly path: string
  readonly step: number
  readonly damages: readonly Damage[]
}

export interface Newest {
  /** undefined: none of them is whole. */
  readonly good?: { readonly path: string; readonly checkpoint: Checkpoint }
  /** Those that are newer, the newest first. */
  readonly damaged: readonly DamagedCheckpoint[]
}

/**
 * Of the checkpoints in a folder, or in folders below it, the newest that is whole. One whose load has ended the process
 * twice is taken only where there is no other. Those after step `upTo` are left out.
 */
export function newestGood(
  folder: string,
  files: Files,
  { share = 'everything', upTo = Number.POSITIVE_INFINITY }: { readonly share?: Share; readonly upTo?: number } = {},
): Newest {
  const damaged: DamagedCheckpoint[] = []
  let doubtful: Newest['good']
  for (const { path, step } of checkpointsIn(folder, files)) {
    if (step > upTo) continue
    const found = readWhole(path, files, share)
    if (!found.checkpoint) {
      damaged.push({ path, step, damages: found.damages })
      continue
    }
    const good = { path, checkpoint: found.checkpoint }
    const crashes = timesCrashed(path, files)
    if (crashes < 2) return { good, damaged }
    doubtful ??= good
    const message = `its checksums are correct, but ${crashes} processes have ended while they loaded it`
    damaged.push({ path, step, damages: [{ file: 'manifest.json', message }] })
  }
  return doubtful ? { good: doubtful, damaged: damaged.filter(({ path }) => path !== doubtful.path) } : { damaged }
}

export interface NamedCheckpoint {
  readonly path: string
  readonly step: number
}

/** Folders with the name of a step that hold a manifest or a shard, the newest first. */
export function checkpointsIn(folder: string, files: Files): NamedCheckpoint[] {
  const steps = new Map<string, number>()
  for (const file of files.list(folder) ?? []) {
    const [, path, step] = /^(.*[/\\]step-(\d+))[/\\](?:manifest\.json|rank-[\w-]+\.safetensors)$/.exec(file) ?? []
    if (path !== undefined) steps.set(path, Number(step))
  }
  return [...steps].map(([path, step]) => ({ path, step })).sort((a, b) => b.step - a.step)
}

type Whole =
  | { readonly checkpoint: Checkpoint; readonly damages?: never }
  | { readonly checkpoint?: never; readonly damages: readonly Damage[] }

/** A checkpoint, or what is wrong with it. */
export function readWhole(path: string, files: Files, share: Share): Whole {
  let checkpoint: Checkpoint
  try {
    checkpoint = readCheckpoint((file, begin, end) => files.readBytes(within(path, file), begin, end))
  } catch (e) {
    return { damages: [{ file: 'manifest.json', message: e instanceof Error ? e.message : String(e) }] }
  }
  const damages = checkpoint.damages(share)
  return damages.length > 0 ? { damages } : { checkpoint }
}

/** Whether a run could go on from it. */
export const isUsable = (path: string, files: Files): boolean =>
  readWhole(path, files, 'everything').checkpoint !== undefined && timesCrashed(path, files) < 2

/** One problem for all that is wrong with a checkpoint in the same way. */
export const problemsOf = ({ path, damages }: DamagedCheckpoint): Problem[] =>
  damageProblems(damages).map(problem => ({ ...problem, message: `${path}: ${problem.message}` }))

/** What is asked for: a checkpoint, or a folder of some. Throws all that is wrong where none is whole. */
export function foundAt(asked: string, files: Files, share: Share): Newest & Required<Pick<Newest, 'good'>> {
  if (!files.exists(asked)) throw new ProblemsError([notThere(asked, files)])
  const newest = files.exists(within(asked, 'manifest.json'))
    ? onlyOne(asked, files, share)
    : listing(asked, () => newestGood(asked, files, { share }))
  if (newest.good) return { ...newest, good: newest.good }
  if (newest.damaged.length > 0)
    throw new ProblemsError(withHint(newest.damaged.flatMap(problemsOf), before(newest.damaged, files, share)))
  const hint = '`train --save FOLDER` writes one'
  throw refusal(`${asked} holds no checkpoint`, hint)
}

/** 'gpt2' and 'meta-llama/Llama-3.1-8B' are models of the hub; where the first folder of a path is there, it is a slip of the path. */
function notThere(asked: string, files: Files): Problem {
  const [, owner, name] = /^(?:([\w.-]+)\/)?(\w[\w.-]*)$/.exec(asked) ?? []
  const isHubModel = name !== undefined && !asked.startsWith('.') && !(owner !== undefined && files.exists(owner))
  const hint = isHubModel
    ? `Lockstep does not download models: \`hf download ${asked} --local-dir ${name}\``
    : undefined
  return error('file/unreadable', '', `${asked}: no such file or directory`, hint)
}

function onlyOne(path: string, files: Files, share: Share): Newest {
  const { checkpoint, damages } = readWhole(path, files, share)
  if (checkpoint) return { good: { path, checkpoint }, damaged: [] }
  return { damaged: [{ path, step: stepIn(path), damages }] }
}

/** The newest that is whole beside those that are damaged, and earlier. */
function before(damaged: readonly DamagedCheckpoint[], files: Files, share: Share): string | undefined {
  const { path, step } = damaged[damaged.length - 1]
  const beside = path.replace(/[/\\]+$/, '').replace(/[/\\]?[^/\\]*$/, '') || '.'
  return Number.isNaN(step) ? undefined : newestGood(beside, files, { share, upTo: step - 1 }).good?.path
}

const stepIn = (path: string): number => Number(/(?:^|[/\\])step-(\d+)[/\\]*$/.exec(path)?.[1] ?? Number.NaN)

const withHint = (problems: readonly Problem[], earlier: string | undefined): Problem[] =>
  problems.map((problem, i) =>
    earlier !== undefined && i === problems.length - 1
      ? { ...problem, suggestion: `the previous checkpoint is complete: ${earlier}` }
      : problem,
  )

const refusal = (message: string, suggestion?: string): ProblemsError =>
  new ProblemsError([error('checkpoint/damaged', '', message, suggestion)])

function listing<T>(path: string, work: () => T): T {
  try {
    return work()
  } catch (e) {
    throw refusal(`${path}: ${e instanceof Error ? e.message : String(e)}`)
  }
}
