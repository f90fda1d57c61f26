/** What is wrong with the data that a job names, seen without reading all of it: files that are missing, or too short. */
import { error, type Files, type Problem, warning } from '../base/index.js'
import { formOf, type Job } from '../plan/index.js'

/** More than this is not read to find out whether a batch is repeated. */
const mostBytes = 2 ** 26

/** `locate` finds the files that the job names. */
export function dataProblems(job: Job, files: Files, locate: (name: string) => string): Problem[] {
  const { data, training } = job
  if (!data || formOf(data) === 'synthetic') return []
  const problems: Problem[] = []
  const refuse = (path: string, name: string, e: unknown) =>
    problems.push(error('data/file', path, `cannot read ${name}: ${e instanceof Error ? e.message : String(e)}`))
  if (data.tokenizer.endsWith('.json') && !files.exists(locate(data.tokenizer)))
    refuse('data.tokenizer', data.tokenizer, 'no such file')
  try {
    const width = formOf(data) === 'text' ? 1 : data.width === 'u32' ? 4 : 2
    const wanted = Math.min(mostBytes, tokensFor(training.globalBatch, job) * width)
    const { bytes, texts } = sizeOf(locate(data.source), files, wanted)
    // Documents that are filled up have at most so many times as many.
    const tokens = Math.floor(bytes / width) + (width === 1 ? texts : 0)
    if (!data.pairs) problems.push(...shortProblems(job, tokens * (data.documents?.pad ?? 1)))
  } catch (e) {
    refuse('data.source', data.source, e)
  }
  return problems
}

/** Tokens that so many samples take, with what is held out for evaluation. */
const tokensFor = (samples: number, { training, data }: Job): number =>
  Math.floor((samples * training.seq) / (1 - (data?.evalFraction ?? 0))) + 1

/** A text has no more tokens than bytes and ends; of ids the number is known. */
function shortProblems(job: Job, tokens: number): Problem[] {
  const { globalBatch, seq } = job.training
  const { source, evalFraction } = job.data!
  const has = `${source} has at most ${tokens} tokens`
  const held = evalFraction > 0 ? ` with ${100 * evalFraction} % held out` : ''
  if (tokens < tokensFor(1, job))
    return [
      error('data/short', 'data.source', `${has}, but a sequence of seq ${seq}${held} takes ${tokensFor(1, job)}`),
    ]
  const batch = tokensFor(globalBatch, job)
  return tokens >= Math.min(batch, mostBytes)
    ? []
    : [
        warning(
          'data/short',
          'data.source',
          `${has}, but a step of globalBatch ${globalBatch} x seq ${seq}${held} takes ${batch}: sequences repeat within a step`,
        ),
      ]
}

/** Bytes of a file, or of all files in a folder; once there are `enough`, the rest is not looked at. */
function sizeOf(path: string, files: Files, enough: number): { bytes: number; texts: number } {
  const found = files.list(path) ?? [path]
  if (found.length === 0) throw new Error('the folder holds no files')
  let [bytes, texts] = [0, 0]
  for (const file of found) {
    bytes += files.readBytes(file, 0, enough - bytes).length
    texts++
    if (bytes >= enough) break
  }
  return { bytes, texts }
}
