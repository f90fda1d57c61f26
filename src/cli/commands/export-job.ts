/** lockstep export job.yaml: a job as files of another framework. */
import { join } from 'node:path'
import { error, save } from '../../base/index.js'
import { type Exported, exportJob, unsetFields } from '../../interop/index.js'
import type { ForeignFramework } from '../../plan/index.js'
import { loadJob } from '../files/load.js'
import type { Io } from '../io.js'
import { countProblems, showProblems } from '../text/problems.js'

interface Options {
  readonly out: string
  readonly release?: string
  readonly json?: boolean
}

export async function exportFiles(path: string, to: ForeignFramework, options: Options, io: Io): Promise<number> {
  const { job, problems, stated = {} } = loadJob(path, io)
  if (!job) {
    io.err(`${showProblems(problems, io, path)}${countProblems(problems)}\n`)
    return 1
  }
  const exported = exportJob(job, to, { ...options, unset: unsetFields(stated) })
  if (exported.refused.length > 0) {
    const refused = exported.refused.map(({ path: at, message }) => error('export/refused', at, message))
    if (options.json) io.out(`${JSON.stringify({ ok: false, problems: refused }, null, 2)}\n`)
    else io.err(showProblems(refused, io, path))
    return 1
  }
  write(exported, options.out, io)
  const files = [...exported.files.keys()]
  const { unsaid, unset, fixed } = exported
  if (options.json) io.out(`${JSON.stringify({ ok: true, files, unsaid, unset, fixed }, null, 2)}\n`)
  else io.out(`${textOf(exported, options.out)}\n`)
  return 0
}

function write({ files }: Exported, folder: string, io: Io): void {
  io.makeFolder(folder)
  for (const [name, text] of files) save(join(folder, name), text, io)
}

function textOf({ files, unsaid, unset, fixed }: Exported, folder: string): string {
  const section = (title: string, of: Exported['unsaid']) =>
    of.length === 0 ? [] : [`${title}:`, ...of.map(({ path, message }) => `  ${path}${message && `: ${message}`}`)]
  return [
    `wrote ${[...files.keys()].join(' and ')} to ${folder}${unsaid.length + unset.length === 0 ? ': all of the job' : ''}`,
    ...section('not set in the job, add your own', unset),
    ...section('not in these files', unsaid),
    ...section('set by default', fixed),
  ].join('\n')
}
