/** The data a job names, read and cut: what `train` feeds its trainer. */
import {
  error,
  type Files,
  type Problem,
  ProblemsError,
  showBytes,
  unwatched,
  type Watcher,
  type Work,
} from '../base/index.js'
import { compileEvaluation } from '../compile/index.js'
import {
  bpeTokenizer,
  byteTokenizer,
  type Dataset,
  type Documents,
  datasetOfIds,
  encodingAll,
  greatestId,
  type Ids,
  looksBinary,
  packed,
  packingPairs,
  padded,
  printTokenizer,
  readIds,
  readPairs,
  readReplay,
  readTokenizer,
  syntheticDataset,
  type Tokenizer,
  trainingMerges,
} from '../data/index.js'
import type { Program } from '../ir/index.js'
import { Data, formOf, type Job, vocabProblems } from '../plan/index.js'
import type { Schedule } from '../schedule/index.js'
import { refused } from './phrases.js'

/** The dataset of a job, with its tokenizer and token ids. */
export interface OpenedData {
  readonly dataset: Dataset
  /** All tokens of a text or a token file. */
  readonly ids?: Ids
  /** The tokenizer.json that the text was encoded with, if any. */
  readonly tokenizer?: string
  /** The EOS token after each text. */
  readonly end?: number
}

const mostBytes = 2 ** 30

export interface DataOptions {
  /** The path of a file that the job names. */
  readonly locate?: (name: string) => string
  readonly watcher?: Watcher
}

/** Opens the dataset that `job.data` names: text, token files, or synthetic data. */
export async function openData(job: Job, files: Files, options: DataOptions = {}): Promise<OpenedData> {
  const opened = await openTokens(job, files, options)
  const routing = job.data?.routing
  if (routing === undefined) return opened
  const { locate = name => name } = options
  const replay = readReplay(attempt('data.routing', routing, () => files.readBytes(locate(routing))))
  return { ...opened, dataset: { ...opened.dataset, replay } }
}

/** What tells documents apart, where the job asks for it; `end` stands after each text. */
function documentsOf({ documents, tokenizer }: Data, end: number | undefined): Documents | undefined {
  if (!documents) return undefined
  const eod = documents.eod === 'eos' ? end : documents.eod
  if (eod === undefined)
    throw new ProblemsError([refused('data.documents.eod', 'data/documents/unknown', { tokenizer })])
  return { ...documents, eod }
}

/** The synthetic task of a job, whatever data it names. */
export function syntheticOf({ model, training, data }: Job): Dataset {
  const shape = model.family === 'mlp' ? { embed: model.embed } : { vocab: model.vocab }
  const dataset = syntheticDataset({ seq: training.seq, ...shape }, training.seed)
  const documents = data && documentsOf(data, 0)
  return documents ? packed(dataset, documents) : dataset
}

async function openTokens(job: Job, files: Files, options: DataOptions): Promise<OpenedData> {
  const { training } = job
  const data = job.data ?? Data.parse({})
  if (formOf(data) === 'synthetic') return { dataset: syntheticOf(job) }
  const {
    ids: read,
    name,
    ...encoded
  } = await idsOf(job, data, {
    files,
    locate: name => name,
    watcher: unwatched,
    ...options,
  })
  const documents = documentsOf(data, encoded.end)
  const ids = documents && !data.pairs ? padded(read, documents) : read
  const cut = { seq: training.seq, evalFraction: data.evalFraction, name, ...alignmentOf(job) }
  const dataset = datasetOfIds(ids, cut)
  if (dataset.train.count === 0)
    throw new ProblemsError([
      refused('data.source', 'data/short/train', {
        ...{ source: data.source, tokens: ids.length, seq: training.seq, needed: training.seq + 1 },
      }),
    ])
  return { dataset: documents ? packed(dataset, documents) : dataset, ids, ...encoded }
}

/** Where what is held out may begin: pairs fill sequences. */
export const alignmentOf = ({ data, training }: Job): { readonly pad: number; readonly aligned: boolean } =>
  data?.pairs ? { pad: training.seq, aligned: true } : { pad: data?.documents?.pad ?? 1, aligned: false }

/** The program that judges, where there is something to judge by. */
export const evaluationOf = (job: Job, { heldOut }: Dataset, schedule: Schedule | undefined): Program | undefined =>
  heldOut.count > 0 && job.training.evalBatches > 0 ? compileEvaluation(job, schedule) : undefined

const required = (problems: readonly Problem[]): void => {
  if (problems.length > 0) throw new ProblemsError(problems)
}

interface Reading extends Required<DataOptions> {
  readonly files: Files
}

interface Tokens extends Pick<OpenedData, 'tokenizer' | 'end'> {
  readonly ids: Ids
  readonly name: string
}

const [training, encoding] = ['training the tokenizer', 'encoding the text']

async function idsOf({ model, training: { seq } }: Job, data: Data, place: Reading): Promise<Tokens> {
  const { source } = data
  const path = place.locate(source)
  place.watcher.say(`reading ${source}`)
  if (formOf(data) === 'ids') {
    const ids = attempt('data.source', source, () => readIds(place.files.readBytes(path), data.width))
    required(vocabProblems(model, greatestId(ids) + 1, source))
    return { ids, name: source }
  }
  const texts = textsOf(source, path, place.files)
  place.watcher.expect(data.tokenizer === 'bpe' ? { [training]: 1, [encoding]: 2 } : { [encoding]: 1 })
  const { tokenizer, json, limit } = await tokenizerOf(data, 'vocab' in model ? model.vocab : 0, texts, place)
  required(vocabProblems(model, tokenizer.vocab, data.tokenizer))
  const { end } = tokenizer
  const rest = { ...(json === undefined ? {} : { tokenizer: json }), ...(end === undefined ? {} : { end }) }
  if (data.pairs) return { ...(await place.watcher.run(encoding, pairsOf(texts, data, tokenizer, seq))), ...rest }
  const ids = await place.watcher.run(encoding, encodingAll(tokenizer, texts))
  const details = [...(texts.length > 1 ? [`${texts.length} files`] : []), tokenizer.name, ...(limit ? [limit] : [])]
  const name = `${source} (${details.join(', ')})`
  return { ids, name, ...rest }
}

/** Prompts and answers, as ids of which only answers are targets. */
function* pairsOf(
  texts: readonly Uint8Array[],
  { source, pairs }: Data,
  tokenizer: Tokenizer,
  seq: number,
): Work<Tokens> {
  const names = typeof pairs === 'object' ? pairs : undefined
  const read = texts.flatMap(text =>
    attempt('data.source', source, () => readPairs(new TextDecoder().decode(text), names)),
  )
  const { ids, cut, targets } = yield* packingPairs(read, tokenizer, seq)
  if (targets === 0) throw new ProblemsError([refused('data.source', 'data/labels/answers', { source, seq })])
  const shortened = cut > 0 ? `, ${cut} of them truncated to ${seq} tokens` : ''
  return { ids, name: `${source} (${read.length} pairs${shortened}, ${targets} tokens to learn, ${tokenizer.name})` }
}

/** A file as it is; of a folder every file that is text. */
function textsOf(source: string, path: string, files: Files): Uint8Array[] {
  const found = attempt('data.source', source, () => files.list(path))
  const read = (file: string) => attempt('data.source', file, () => files.readBytes(file))
  const texts: Uint8Array[] = []
  let total = 0
  for (const file of found ?? [path]) {
    const bytes = read(file)
    if (found && (bytes.length === 0 || looksBinary(bytes))) continue
    texts.push(bytes)
    total += bytes.length
    if (total > mostBytes)
      throw new ProblemsError([refused('data.source', 'data/size', { source, most: showBytes(mostBytes) })])
  }
  if (texts.length === 0) throw new ProblemsError([refused('data.source', 'data/empty', { source })])
  return texts
}

async function tokenizerOf(
  data: Data,
  vocab: number,
  texts: readonly Uint8Array[],
  { files, locate, watcher }: Reading,
): Promise<{ tokenizer: Tokenizer; json?: string; limit?: string }> {
  if (data.tokenizer === 'bytes') return { tokenizer: byteTokenizer }
  if (data.tokenizer !== 'bpe') {
    const text = attempt('data.tokenizer', data.tokenizer, () => files.read(locate(data.tokenizer)))
    try {
      return { tokenizer: await readTokenizer(text, data.tokenizer), json: text }
    } catch (e) {
      throw new ProblemsError([
        refused('data.tokenizer', 'data/file/tokenizer', { file: data.tokenizer, why: reasonOf(e) }),
      ])
    }
  }
  const binary = texts.find(looksBinary)
  if (binary) throw new ProblemsError([refused('data.source', 'data/binary', { source: data.source })])
  let limit = ''
  const onLimit = (bytes: number) => {
    limit = `trained on the first ${showBytes(bytes)} of its different words`
  }
  const merges = await watcher.run(training, trainingMerges(texts, data.vocab ?? vocab, { onLimit }))
  return { tokenizer: bpeTokenizer(merges), json: printTokenizer(merges), limit }
}

function attempt<T>(path: string, file: string, work: () => T): T {
  try {
    return work()
  } catch (e) {
    throw new ProblemsError([refused(path, 'data/file/unreadable', { file, why: reasonOf(e) })])
  }
}

const reasonOf = (e: unknown): string => (e instanceof Error ? e.message : String(e))

/** Callers without types may forget it. */
export const datasetProblems = (dataset: Dataset | undefined): Problem[] =>
  dataset?.train
    ? []
    : [
        error(
          'data/file',
          'dataset',
          'startSession needs a dataset as its second argument',
          'openData opens the one that a job names, syntheticDataset makes one',
        ),
      ]
