/** A trained model, ready to use: a checkpoint of any plan, in one process, with the tokenizer its text was encoded with. */
import { error, type Files, type Problem, ProblemsError } from '../base/index.js'
import type { Checkpoint } from '../checkpoint/index.js'
import { byteTokenizer, readTokenizer, type Tokenizer } from '../data/index.js'
import type { StartDecoderOptions } from '../engine/index.js'
import { contextOfModel, type ModelConfig } from '../model/index.js'
import { adaptersOf, formOf, Job } from '../plan/index.js'
import { beginningOf } from '../train/index.js'
import { createDecoder, type Decoder, type FillWeight } from './decoder.js'

/** A complete checkpoint of any kind, opened for inference. */
export interface TrainedModel {
  readonly path: string
  readonly checkpoint: Checkpoint
  readonly job: Job
  /** Newer checkpoints of the folder that were skipped because they are corrupt. */
  readonly passedOver: number
  /** Where computation differs from the Hugging Face model of the folder. */
  readonly warnings: readonly Problem[]
}

/**
 * Opens a trained model. `path`: a checkpoint, or a folder of them, of which the latest complete one is taken. Throws
 * a `ProblemsError`.
 */
export function openTrained(path: string, files: Files, { adapters }: OpenTrainedOptions = {}): TrainedModel {
  const found = beginningOf({ init: path, ...(adapters !== undefined && { adapters }) }, files)
  if (!found) throw new Error('internal: a path was given')
  const job = found.weights ? jobOfFolder(found) : jobOf(found)
  const { path: at, checkpoint, damaged = [], weights } = found
  const warnings = (weights?.folder.warnings ?? []).map(problem => ({ ...problem, path: '' }))
  return { path: at, checkpoint, job, passedOver: damaged.length, warnings }
}

export interface OpenTrainedOptions {
  /** A folder of PEFT, whose adapters stand beside the weights. */
  readonly adapters?: string | undefined
}

/** Sequences that a folder of weights is judged on, and tokens that are remembered, unless the model was made for fewer. */
const usualContext = 2048

/** Of weights that no job has made. Rows of learned positions are as many as there are. */
function jobOfFolder({ checkpoint }: { readonly checkpoint: Checkpoint }): Job {
  const { model, training } = Object(checkpoint.job())
  const rows = checkpoint.tensors.get('param.embed.positions')?.[0].size
  const seq = Math.min(rows ?? contextOfModel(model), usualContext)
  return { ...Job.parse({ model: standIn, training: { seq, globalBatch: 1, ...training }, plan: {} }), model }
}

/** A model that was parsed before takes its place. */
const standIn = { family: 'mlp', layers: 1, embed: 1 }

function jobOf({ path, checkpoint }: { readonly path: string; readonly checkpoint: Checkpoint }): Job {
  const found = checkpoint.job()
  const parsed = Job.safeParse(found)
  if (parsed.success) return parsed.data
  const message = found
    ? `${path}: its job.json is not a job of this version: ${parsed.error.issues[0]?.message ?? ''}`
    : `${path} has no job.json, so its model is unknown`
  throw new ProblemsError([error('checkpoint/model', '', message, 'save it again with this version of lockstep')])
}

/** The tokenizer of a trained model; undefined if it was trained on token ids alone. */
export async function tokenizerOf({ path, checkpoint, job }: TrainedModel): Promise<Tokenizer | undefined> {
  const text = checkpoint.tokenizer()
  if (text === undefined) return tokenizerOfJob(job)
  try {
    return await readTokenizer(text, 'tokenizer.json')
  } catch (e) {
    const why = e instanceof Error ? e.message : String(e)
    throw new ProblemsError([error('generate/tokenizer', '', `${path}/tokenizer.json ${why}`)])
  }
}

/** Of a job whose text needs no tokenizer.json. */
const tokenizerOfJob = ({ data }: Job): Tokenizer | undefined =>
  data && formOf(data) === 'text' && data.tokenizer === 'bytes' ? byteTokenizer : undefined

/** The tokenizer of a run that is under way. */
export const tokenizerOfRun = async (job: Job, json: string | undefined): Promise<Tokenizer | undefined> =>
  json === undefined ? tokenizerOfJob(job) : readTokenizer(json, 'tokenizer.json')

/** Weights as evaluation reads them: the average of a parameter, where there is one. */
export const weightsOf =
  ({ path, checkpoint }: Pick<TrainedModel, 'path' | 'checkpoint'>): FillWeight =>
  (name, values) => {
    const tensor = [`ema.${name}`, `param.${name}`].find(held => checkpoint.tensors.has(held)) ?? `param.${name}`
    const [first = 1, ...rest] = (checkpoint.tensors.get(tensor) ?? []).map(({ size }) => size)
    // Of learned positions, those of the context.
    const shape = [Math.min(first, values.length / rest.reduce((n, size) => n * size, 1)), ...rest]
    const wrong = checkpoint.fill(tensor, [{ start: shape.map(() => 0), shape, values }])
    if (wrong.length > 0)
      throw new ProblemsError(wrong.map(message => error('checkpoint/damaged', '', `${path}: ${message}`)))
  }

export interface OpenDecoderOptions extends StartDecoderOptions {
  /** Without it, the length of the sequences that the model was trained on. */
  readonly context?: number | undefined
}

/** A decoder with a KV cache for a trained model. */
export function openDecoder(trained: TrainedModel, options: OpenDecoderOptions = {}): Promise<Decoder> {
  const { model, training } = trained.job
  const { context = training.seq } = options
  requireContext(model, context, training.seq)
  return createDecoder(model, weightsOf(trained), { ...options, context, adapters: adaptersOf(trained.job) })
}

/** Rotary positions go on; learned ones end. */
function requireContext(model: ModelConfig, context: number, seq: number): void {
  if (model.family !== 'gpt' || context <= seq) return
  const message = `a context of ${context} tokens > the ${seq} position embeddings of the model`
  throw new ProblemsError([error('generate/options', 'context', message, `try ${seq}`)])
}
