/** How well a trained model knows a text: loss, perplexity and bits per byte, by the evaluation that `train` makes. */
import { error, type Files, ProblemsError, unwatched, type Watcher } from '../base/index.js'
import { type Checkpoint, loadCheckpoint } from '../checkpoint/index.js'
import { compileEvaluation } from '../compile/index.js'
import { batchesInOrder, type Samples, type Tokenizer } from '../data/index.js'
import { type KernelName, startTrainer } from '../engine/index.js'
import { Data, formOf, Job } from '../plan/index.js'
import { openData } from '../train/index.js'
import { type TrainedModel, tokenizerOf } from './open.js'

/** The result of `evaluate`: loss, perplexity and bits per byte. */
export interface Evaluation {
  /** A description of the data, for people. */
  readonly data: string
  /** The mean over labels that are not ignored, in nats. */
  readonly loss: number
  readonly perplexity: number
  /** Undefined without a tokenizer. */
  readonly bitsPerByte?: number
  readonly tokens: number
  readonly sequences: number
}

export interface EvaluateOptions {
  readonly files: Files
  /** A text, a folder of texts, or a file of ids; without it, what the job holds out, as `train` judges it. */
  readonly data?: string | undefined
  readonly kernels?: KernelName | 'auto'
  /** Threads, each with its share of the sequences. */
  readonly ranks?: number
  readonly watcher?: Watcher
}

/** Evaluates a trained model on a text: loss, perplexity, bits per byte. Throws a `ProblemsError`. */
export async function evaluate(trained: TrainedModel, options: EvaluateOptions): Promise<Evaluation> {
  const { kernels = 'auto', ranks = 1, watcher = unwatched } = options
  const { samples, most, description } = await samplesOf(trained, options)
  if (samples.count === 0) throw nothing(trained, options)
  const job = judging(trained.job, Math.min(ranks, samples.count))
  const program = compileEvaluation(job)
  const trainer = await startTrainer(program, { kernels, seed: 0 })
  try {
    const averaged = averages(trained.checkpoint)
    const problems = loadCheckpoint(program, averaged, 'weights', (shard, values) => trainer.hold(shard, values))
    if (problems.length > 0) throw new ProblemsError(problems)
    const batches = batchesInOrder(limited(samples, most), job.training.globalBatch, Number.POSITIVE_INFINITY)
    let [sum, tokens] = [0, 0]
    for (const [i, inputs] of batches.entries()) {
      watcher.say(`evaluating ${description}`, i / batches.length)
      const { loss, count } = await trainer.step({ inputs, lr: 0, step: 0 })
      if (count > 0) sum += loss * count
      tokens += count
    }
    const judged = { loss: sum / tokens, tokens, sequences: Math.min(samples.count, most) }
    const bytes = bytesOf(limited(samples, most), await tokenizerOf(trained))
    return {
      ...{ data: description, ...judged, perplexity: Math.exp(judged.loss) },
      ...(bytes > 0 && { bitsPerByte: sum / Math.LN2 / bytes }),
    }
  } finally {
    await trainer.stop()
  }
}

/** The whole of what was given; or of the job's held-out samples as many as `train` takes. */
async function samplesOf(trained: TrainedModel, { data, files, watcher = unwatched }: EvaluateOptions) {
  const { job } = trained
  if (data === undefined) {
    const { dataset } = await openData(withTokenizer(job, trained.checkpoint), virtual(trained.checkpoint, files), {
      watcher,
    })
    const most = job.training.evalBatches * job.training.globalBatch
    return { samples: dataset.heldOut, most, description: 'validation data of the job' }
  }
  const named = { ...job, data: { ...(job.data ?? Data.parse({})), source: data, evalFraction: 0 } }
  requireTokens(named, trained)
  const { dataset } = await openData(withTokenizer(named, trained.checkpoint), virtual(trained.checkpoint, files), {
    watcher,
  })
  return { samples: dataset.train, most: Number.POSITIVE_INFINITY, description: data }
}

function requireTokens({ data }: Job, { path, job, checkpoint }: TrainedModel): void {
  const known = checkpoint.tokenizer() !== undefined || (job.data && formOf(job.data) === 'text')
  if (known || !data || formOf(data) !== 'text') return
  throw new ProblemsError([
    error(
      'generate/tokenizer',
      'data',
      `${path} has no tokenizer: its model was trained on token ids, but ${data.source} is text`,
      'pass a .bin file of token ids',
    ),
  ])
}

const nothing = ({ job }: TrainedModel, { data }: EvaluateOptions): ProblemsError =>
  new ProblemsError([
    data === undefined
      ? error('data/empty', 'data', 'the job has no validation data', 'pass a text with --data')
      : error('data/short', 'data', `${data} has fewer than seq ${job.training.seq} + 1 tokens`),
  ])

const tokenizerFile = 'tokenizer.json of the checkpoint'

/** The tokenizer is the one that the checkpoint carries, wherever the job had it from. */
function withTokenizer(job: Job, checkpoint: Checkpoint): Job {
  const isText = job.data && formOf(job.data) === 'text'
  return isText && checkpoint.tokenizer() !== undefined
    ? { ...job, data: { ...job.data!, tokenizer: tokenizerFile, vocab: undefined } }
    : job
}

const virtual = (checkpoint: Checkpoint, files: Files): Files => ({
  ...files,
  read: path => (path === tokenizerFile ? (checkpoint.tokenizer() ?? '') : files.read(path)),
})

/** Sequences that a rank judges at once. */
const together = 4

/** The same model and sequences, on a plan of this machine. */
const judging = ({ model, training, plan, data }: Job, ranks: number): Job => {
  const alone = Job.parse({
    model: { family: 'mlp', layers: 1, embed: 1 },
    training: { seq: training.seq, globalBatch: together * ranks },
    plan: { dp: ranks, precision: plan.precision },
  })
  return { ...alone, model, training: { ...alone.training, lora: training.lora }, ...(data && { data }) }
}

/** What an evaluation reads: the average of a parameter, where there is one. */
const averages = (checkpoint: Checkpoint): Checkpoint => ({
  ...checkpoint,
  fill: (name, targets) => {
    const ema = name.replace(/^param\./, 'ema.')
    return checkpoint.fill(checkpoint.tensors.has(ema) ? ema : name, targets)
  },
})

const limited = (samples: Samples, most: number): Samples => ({ ...samples, count: Math.min(samples.count, most) })

/** Of the labels that count; 0: nobody knows. */
function bytesOf({ count, inputs, write }: Samples, tokenizer: Tokenizer | undefined): number {
  if (!tokenizer || !inputs.labels) return 0
  const labels = new Int32Array(inputs.labels.size)
  let bytes = 0
  for (let sample = 0; sample < count; sample++) {
    write('labels', sample, labels)
    bytes += tokenizer.decode(labels.filter(id => id >= 0)).length
  }
  return bytes
}
