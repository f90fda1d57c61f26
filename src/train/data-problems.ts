/** What is wrong with the data that a job names, seen without reading all of it: files that are missing, or too short. */
import type { Files, Problem } from '../base/index.js'
import { looksBinary, stepsRecorded } from '../data/index.js'
import { formOf, type Job } from '../plan/index.js'
import { advised, clause, refused } from './phrases.js'

/** More than this is not read to find out whether a batch is repeated. */
const mostBytes = 2 ** 26

/** `locate` finds the files that the job names. */
export function dataProblems(job: Job, files: Files, locate: (name: string) => string): Problem[] {
  const { data, training } = job
  if (!data) return []
  const problems: Problem[] = []
  if (data.routing !== undefined) problems.push(...choiceProblems(job, data.routing, files, locate))
  if (formOf(data) === 'synthetic') return problems
  if (data.tokenizer.endsWith('.json') && !files.exists(locate(data.tokenizer)))
    problems.push(refused('data.tokenizer', 'data/file/missing', { file: data.tokenizer }))
  try {
    const width = formOf(data) === 'text' ? 1 : data.width === 'u32' ? 4 : 2
    const wanted = Math.min(mostBytes, tokensFor(training.globalBatch, job) * width)
    const { bytes, texts } = sizeOf(locate(data.source), files, wanted)
    if (texts === 0) return [...problems, refused('data.source', 'data/empty', { source: data.source })]
    // Documents that are filled up have at most so many times as many.
    const tokens = Math.floor(bytes / width) + (width === 1 ? texts : 0)
    if (!data.pairs) problems.push(...shortProblems(job, tokens * (data.documents?.pad ?? 1)))
  } catch (e) {
    problems.push(refused('data.source', 'data/file/unreadable', { file: data.source, why: reasonOf(e) }))
  }
  return problems
}

/** A file of choices that is there has them of as many steps as the job takes. */
function choiceProblems({ training }: Job, file: string, files: Files, locate: (name: string) => string): Problem[] {
  if (!files.exists(locate(file))) return [refused('data.routing', 'data/file/missing', { file })]
  try {
    const recorded = stepsRecorded(files.readBytes(locate(file)))
    const { steps } = training
    return recorded < steps ? [advised('data.routing', 'data/short/choices', { file, recorded, steps })] : []
  } catch (e) {
    return [refused('data.routing', 'data/file/unreadable', { file, why: reasonOf(e) })]
  }
}

/** Tokens that so many samples take, with what is held out for evaluation. */
const tokensFor = (samples: number, { training, data }: Job): number =>
  Math.floor((samples * training.seq) / (1 - (data?.evalFraction ?? 0))) + 1

/** A text has no more tokens than bytes and ends; of ids the number is known. */
function shortProblems(job: Job, tokens: number): Problem[] {
  const { globalBatch, seq } = job.training
  const { source, evalFraction } = job.data!
  const held = evalFraction > 0 ? clause('.held-out', { percent: 100 * evalFraction }) : ''
  const words = { source, tokens, seq, held }
  const [one, batch] = [tokensFor(1, job), tokensFor(globalBatch, job)]
  if (tokens < one) return [refused('data.source', 'data/short/sequence', { ...words, needed: one })]
  if (tokens >= Math.min(batch, mostBytes)) return []
  return [advised('data.source', 'data/short/batch', { ...words, globalBatch, needed: batch })]
}

const reasonOf = (e: unknown): string => (e instanceof Error ? e.message : String(e))

/** Bytes of a file, or of all text files in a folder; once there are `enough`, the rest is not looked at. */
function sizeOf(path: string, files: Files, enough: number): { bytes: number; texts: number } {
  const listed = files.list(path)
  if (listed?.length === 0) throw new Error('the folder holds no files')
  let [bytes, texts] = [0, 0]
  for (const file of listed ?? [path]) {
    const read = files.readBytes(file, 0, enough - bytes)
    // As training does: of a folder, only text is read.
    if (listed && (read.length === 0 || looksBinary(read))) continue
    bytes += read.length
    texts++
    if (bytes >= enough) break
  }
  return { bytes, texts }
}
