/** The weights of a checkpoint as a Hugging Face folder that transformers loads. */
import { error, type Files, ProblemsError } from '../base/index.js'
import { edgesOf, printByteTokenizer } from '../data/index.js'
import type { Adapters } from '../model/index.js'
import { adaptersOf, type Data, formOf, Job } from '../plan/index.js'
import {
  type Exported,
  type ExportOptions,
  exportAdapters,
  exportWeights,
  mergedWeights,
  openWeights,
  type Trained,
} from '../weights/index.js'
import { type Beginning, beginningOf } from './checkpoints.js'

/** Options of `exportCheckpoint`. */
export interface CheckpointExport extends Omit<ExportOptions, 'files' | 'like' | 'tokenizer' | 'texts' | 'edges'> {
  /** The path of a Hugging Face folder of the same model. */
  readonly like?: string | undefined
  /** Of a LoRA run: merged into the weights (default), or separate as PEFT reads them. */
  readonly adapters?: 'merged' | 'separate' | undefined
}

/**
 * Exports a checkpoint as a Hugging Face folder. `path`: a checkpoint, a folder of them, or a Hugging Face folder.
 * Throws all reasons that prevent it.
 */
export function exportCheckpoint(
  path: string,
  files: Files,
  { like, adapters: how, ...options }: CheckpointExport,
): Exported & { readonly from: string } {
  const beginning = beginningOf({ init: path }, files)!
  const { checkpoint, weights } = beginning
  const followed = like === undefined ? weights?.folder : openWeights(like, files)
  const { trained, tokenizer, adapters } = weights ? ofFolder(beginning) : ofRun(beginning)
  if (how !== undefined && !adapters) throw new ProblemsError([withoutAdapters(beginning.path)])
  const edges = tokenizer === undefined ? {} : edgesOf(tokenizer)
  const told = { ...options, files, like: followed, tokenizer, texts: checkpoint.texts(), edges }
  const from = beginning.path
  if (adapters && how === 'separate') return { from, ...exportAdapters(checkpoint, trained, adapters, told) }
  return { from, ...exportWeights(adapters ? mergedWeights(checkpoint, adapters) : checkpoint, trained, told) }
}

const withoutAdapters = (path: string) =>
  error('weights/adapters', '', `${path} has no adapters`, 'training.lora trains adapters; leave --adapters out')

interface Exportable {
  readonly trained: Trained
  readonly tokenizer?: string | undefined
  readonly adapters?: Adapters | undefined
}

/** All rows of learned positions, where there are any. */
function ofFolder({ weights, checkpoint }: Beginning): Exportable {
  const rows = checkpoint.tensors.get('param.embed.positions')?.[0].size
  return { trained: { model: weights!.folder.config, seq: rows ?? 1 } }
}

function ofRun({ path, checkpoint }: Beginning): Exportable {
  const job = Job.safeParse(checkpoint.job())
  if (!job.success)
    throw new ProblemsError([error('checkpoint/damaged', '', `${path}: job.json was written by a different version`)])
  const { model, training, data } = job.data
  const tokenizer = checkpoint.tokenizer() ?? tokenizerOf(data)
  const adapters = adaptersOf(job.data)
  return { trained: { model, seq: training.seq }, adapters, ...(tokenizer !== undefined && { tokenizer }) }
}

/** Bytes are a tokenizer that needs no file here; others need one. */
const tokenizerOf = (data: Data | undefined): string | undefined =>
  data && formOf(data) === 'text' && data.tokenizer === 'bytes' ? printByteTokenizer() : undefined
