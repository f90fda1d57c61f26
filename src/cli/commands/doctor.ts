/** lockstep doctor: diagnoses a run and suggests fixes. */
import { join } from 'node:path'
import { counted, ProblemsError, showPercent, showTime, wrapped } from '../../base/index.js'
import { compileJob } from '../../compile/index.js'
import { type Diagnosis, diagnose } from '../../doctor/index.js'
import { readRun, showEvent } from '../../health/index.js'
import { partNames, partTitles } from '../../metrics/index.js'
import { worldOfPlan } from '../../plan/index.js'
import { loadJob } from '../files/load.js'
import { loadCluster } from '../files/load-cluster.js'
import { readTimes } from '../files/run-report.js'
import type { Io } from '../io.js'

export interface DoctorOptions {
  readonly cluster?: string
  readonly json?: boolean
}

export function doctorCommand(path: string, options: DoctorOptions, io: Io): number {
  const run = readRun(path, io)
  const file = join(path, 'job.json')
  const { job, problems } = loadJob(file, io)
  if (!job) throw new ProblemsError(problems, file)
  const cluster = options.cluster === undefined ? undefined : loadCluster(options.cluster, io, worldOfPlan(job.plan))
  const diagnosis = diagnose({ run, job, program: compileJob(job), cluster, times: readTimes(path, io) })
  io.out(options.json ? `${JSON.stringify({ ok: true, ...diagnosis }, null, 2)}\n` : textOf(diagnosis))
  return diagnosis.findings.some(({ severity }) => severity === 'error') ? 1 : 0
}

function textOf({ steps, seconds, predicted, parts, findings }: Diagnosis): string {
  const against = predicted === undefined ? '' : `, predicted ${showTime(predicted)}`
  const spent = partNames.flatMap(part =>
    parts && predicted && parts[part] > 0.005 * predicted
      ? [`${partTitles[part]} ${showPercent(parts[part] / predicted)}`]
      : [],
  )
  return [
    steps === 0 ? 'No step was completed.' : `${counted(steps, 'step')}, ${showTime(seconds)}/step${against}`,
    ...(spent.length > 0 ? wrapped(`predicted time: ${spent.join(', ')}`) : []),
    '',
    ...(findings.length === 0
      ? ['No problems found.']
      : findings.flatMap((one, i) => wrapped(`${i + 1}. ${showEvent(one)}`, undefined, '   '))),
    '',
  ].join('\n')
}
