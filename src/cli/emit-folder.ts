/** The folder of an emitted run, written: what `emit` and `launch` share. */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { error, type Problem, ProblemsError } from '../base/index.js'
import { checkpointProblems, readCheckpoint } from '../checkpoint/index.js'
import type { Dataset, Ids } from '../data/index.js'
import { emit, type Files, type Run, type RunData } from '../emit/index.js'
import type { Program } from '../ir/index.js'
import { flopsPerToken } from '../model/index.js'
import type { Job } from '../plan/index.js'
import { loadDataset } from './dataset.js'
import type { Io } from './io.js'
import type { Loaded } from './program.js'
import { writing } from './run-folder.js'

const runtimeFolder = fileURLToPath(new URL('../../../src/emit/runtime', import.meta.url))
const tokenFile = 'tokens.bin'

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
  /** Of the job. */
  readonly path: string
  readonly folder: string
  /** The checkpoint whose weights it starts from. */
  readonly init?: string | undefined
  /** What a simulation said of a step. */
  readonly expected?: Run['expected']
  readonly io: Io
  readonly say: (text: string) => void
}

export async function writeEmitted({ job, program }: Loaded, target: Target): Promise<EmittedFolder> {
  const { path, folder, init, expected, io, say } = target
  if (io.exists(join(folder, 'metrics.jsonl')))
    throw new ProblemsError([
      error('emit/exists', '', `${folder} holds the metrics of another run`, 'name another folder with --out'),
    ])
  const { dataset, ids } = await loadDataset(job, path, io, say)
  say('emitting')
  const run = { ...runOf(job, path, dataset, ids), ...(expected && { expected }) }
  const files = emit(program, run, runtimeFiles())
  const all: Record<string, string | Uint8Array> = {
    ...files,
    ...(ids && { [tokenFile]: bytesOf(ids) }),
    ...(init !== undefined && initialWeights(program, init, io)),
  }
  for (const [name, content] of Object.entries(all)) {
    const file = join(folder, name)
    writing(file, () => {
      io.makeFolder(dirname(file))
      io.write(file, content)
    })
  }
  return { folder, files: Object.keys(all), data: dataset.description }
}

/** The checkpoint's files as the folder `init`, once every weight of the program was found sound. */
function initialWeights(program: Program, init: string, io: Io): Record<string, Uint8Array> {
  const read = (file: string) => io.readBytes(join(init, file))
  const problems: Problem[] = []
  try {
    const checkpoint = readCheckpoint(read)
    problems.push(...checkpointProblems(program, checkpoint))
    if (problems.length === 0) for (const { name } of program.params) checkpoint.tensor(`param.${name}`)
    if (problems.length === 0)
      return Object.fromEntries(['manifest.json', ...checkpoint.files].map(file => [`init/${file}`, read(file)]))
  } catch (e) {
    problems.push(error('checkpoint/damaged', '', `${init}: ${e instanceof Error ? e.message : String(e)}`))
  }
  throw new ProblemsError(problems)
}

const bytesOf = (ids: Ids): Uint8Array => new Uint8Array(ids.buffer, ids.byteOffset, ids.byteLength)

export function runOf(job: Job, path: string, { train }: Pick<Dataset, 'train'>, ids: Ids | undefined): Run {
  const { model, training } = job
  return {
    title: job.name ?? basename(path, extname(path)),
    seed: training.seed,
    steps: training.steps,
    globalBatch: training.globalBatch,
    seq: training.seq,
    learningRate: { lr: training.optimizer.lr, ...training.lrSchedule },
    data: dataOf(job, train.count, ids),
    flopsPerToken: flopsPerToken(model, training.seq),
  }
}

function dataOf({ model }: Job, samples: number, ids: Ids | undefined): RunData {
  if (ids) return { kind: 'tokens', file: tokenFile, width: ids.BYTES_PER_ELEMENT as 1 | 2 | 4, samples } // all that Ids can be
  return model.family === 'mlp'
    ? { kind: 'rotations', embed: model.embed }
    : { kind: 'progressions', vocab: model.vocab }
}
