/** The job of a file, or everything that is wrong with it. */
import { join, resolve } from 'node:path'
import { error, type Problem } from '../../base/index.js'
import { isPreset } from '../../model/index.js'
import { detect, formOf, isHubName, type Job, type ParsedJob, parseJob } from '../../plan/index.js'
import type { Beginning } from '../../train/index.js'
import type { Io } from '../io.js'
import { besides } from './beside.js'
import { importedJob } from './imported.js'

interface Loading {
  /** A configuration of another framework is imported on the way. */
  readonly foreign?: boolean
  /** Its ranks, where it does not say how many. */
  readonly world?: number | undefined
  /** Variables of its script, whatever it sets them to. */
  readonly set?: Readonly<Record<string, string>> | undefined
}

export function loadJob(path: string, io: Io, { foreign = false, world, set }: Loading = {}): ParsedJob {
  const unchanged = (problem: Problem) => problem
  let text: string
  try {
    text = io.read(path)
  } catch (e) {
    return { problems: [unreadable(path, e instanceof Error ? e.message : String(e), io)], locate: unchanged }
  }
  if (foreign && detect(text)) return importedJob(text, { path, world, set }, io)
  if (set) return { problems: [ownJob], locate: unchanged }
  return parseJob(text, { path, readModel: model => io.read(besides(path, model)) })
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
