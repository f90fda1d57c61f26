/** The job of a file, or everything that is wrong with it. */
import { dirname, isAbsolute, join } from 'node:path'
import { error, type Problem } from '../../base/index.js'
import { type ParsedJob, parseJob } from '../../plan/index.js'
import type { Io } from '../io.js'

/** Files that the job names (a model's config.json, a schedule's CSV) are relative to the job file. */
export const besides = (jobPath: string, path: string): string =>
  isAbsolute(path) || jobPath === '-' ? path : join(dirname(jobPath), path)

export function loadJob(path: string, io: Io): ParsedJob {
  const unchanged = (problem: Problem) => problem
  let text: string
  try {
    text = io.read(path)
  } catch (e) {
    const reason = e instanceof Error ? e.message : String(e)
    return { problems: [error('file/unreadable', '', `cannot read the job: ${reason}`)], locate: unchanged }
  }
  return parseJob(text, { path, readModel: model => io.read(besides(path, model)) })
}
