/** lockstep report: a run as one page. */
import { join } from 'node:path'
import { heaviest } from '../../compile/index.js'
import { readRun } from '../../health/index.js'
import { requireOutputs } from '../files/outputs.js'
import { tryProgram } from '../files/program.js'
import { saveReport } from '../files/run-report.js'
import type { Io } from '../io.js'
import { paragraph } from './check.js'

export interface ReportOptions {
  readonly out?: string
  readonly json?: boolean
}

export async function reportCommand(path: string, { out, json }: ReportOptions, io: Io): Promise<number> {
  requireOutputs(io, out)
  const { job } = readRun(path, io)
  // Without its job a run has curves and events all the same.
  const { loaded } =
    job === undefined
      ? {}
      : await tryProgram(join(path, 'job.json'), io, { fits: false }).catch(() => ({ loaded: undefined }))
  const parts = loaded && {
    ...{ about: paragraph(loaded.job), program: loaded.program },
    memory: loaded.program.streams[heaviest(loaded.program.streams)].peak,
  }
  const written = saveReport(path, { about: 'Its job is not known.', ...parts, ...(out !== undefined && { out }) }, io)
  io.out(json ? `${JSON.stringify({ ok: true, written })}\n` : `written: ${written}\n`)
  return 0
}
