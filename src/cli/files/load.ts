/** The job of a file, or everything that is wrong with it. */
import { join, resolve } from 'node:path'
import { error, type Problem } from '../../base/index.js'
import { isPreset } from '../../model/index.js'
import { detect, formOf, isHubName, type Job, type ParsedJob, parseJob } from '../../plan/index.js'
import type { Beginning } from '../../train/index.js'
import type { Io } from '../io.js'
import { besides } from './beside.js'

export function loadJob(path: string, io: Io): ParsedJob {
  const text = textOf(path, io)
  return typeof text === 'string' ? jobIn(text, path, io) : text
}

/** For a config of another framework. */
interface Importing {
  /** World size, where it does not specify it. */
  readonly devices?: number | undefined
  /** Overridden variables of its script. */
  readonly set?: Readonly<Record<string, string>> | undefined
}

/** The same, or the job of a config of another framework. Importers are loaded only for such a config. */
export async function loadAnyJob(path: string, io: Io, { devices, set }: Importing = {}): Promise<ParsedJob> {
  const text = textOf(path, io)
  if (typeof text !== 'string') return text
  if (detect(text)) {
    const { importedJob } = await import('./imported.js')
    return importedJob(text, { path, devices, set }, io)
  }
  return set ? { problems: [ownJob], locate: problem => problem } : jobIn(text, path, io)
}

const jobIn = (text: string, path: string, io: Io): ParsedJob =>
  parseJob(text, { path, readModel: model => io.read(besides(path, model)) })

/** Or why it cannot be read. */
function textOf(path: string, io: Io): string | ParsedJob {
  try {
    return io.read(path)
  } catch (e) {
    const problems = [unreadable(path, e instanceof Error ? e.message : String(e), io)]
    return { problems, locate: problem => problem }
  }
}

const ownJob = error(
  'import/refused',
  '--set',
  'sets variables of a script of another framework, and this is a job of ours',
  'write the field into the job',
)

/** A model is sometimes given where a job is expected. */
function unreadable(path: string, reason: string, io: Io): Problem {
  const config = join(path, 'config.json')
  const hint = io.exists(config)
    ? `it holds a Hugging Face model: write a job with model: ${path}`
    : isPreset(path)
      ? `that is a model: write a job with model: ${path}, training and plan`
      : reason === 'no such file' && isHubName(path)
        ? 'if that is a model on the Hugging Face hub: save its config.json and write a job with model: ./config.json'
        : undefined
  return error('file/unreadable', '', `cannot read the job: ${reason}`, hint)
}

/** Whoever begins with weights that were trained with a tokenizer of a file reads text with it, unless the job names one. */
export function withItsTokenizer(job: Job, beginning: Beginning | undefined, io: Io): Job {
  const { data } = job
  if (!beginning || !data || formOf(data) !== 'text' || data.tokenizer !== 'bytes') return job
  const file = resolve(beginning.path, 'tokenizer.json')
  return io.exists(file) && hasTokenizer(beginning) ? { ...job, data: { ...data, tokenizer: file } } : job
}

/** Bytes and those that are learned from the data need no file. */
function hasTokenizer({ weights, checkpoint }: Beginning): boolean {
  const { data } = Object(checkpoint.job())
  return weights !== undefined || String(Object(data).tokenizer).endsWith('.json')
}

/** A copy of a job is read from elsewhere: the files it names must be found from there too. */
export function portable(job: Job, path: string): Job {
  const found = (name: string) => resolve(besides(path, name))
  const { data } = job
  const { schedule } = job.plan
  return {
    ...job,
    plan: { ...job.plan, schedule: typeof schedule === 'string' ? schedule : { file: found(schedule.file) } },
    ...(data && {
      data: {
        ...data,
        source: formOf(data) === 'synthetic' ? data.source : found(data.source),
        tokenizer: data.tokenizer.endsWith('.json') ? found(data.tokenizer) : data.tokenizer,
      },
    }),
  }
}
