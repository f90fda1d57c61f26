/** `plan job.yaml`: the job specifies everything but the plan, which is searched; `--out` writes the job with the plan found. */
import { dirname } from 'node:path'
import { parseDocument, stringify } from 'yaml'
import { ProblemsError } from '../../base/index.js'
import { findEntry } from '../../cluster/index.js'
import { detect, Job, type PlanInput, worldOfPlan } from '../../plan/index.js'
import { planOf, type RankedPlan, requestOfJob } from '../../search/index.js'
import type { Io } from '../io.js'
import { type Planning, type PlanningOptions, planningFor } from '../text/planning.js'
import { loadAnyJob, portable } from './load.js'
import { loadCluster } from './load-cluster.js'

type JobPlanningOptions = Omit<PlanningOptions, 'model' | 'lora' | 'precision' | 'seq' | 'globalBatch'> &
  Partial<Pick<PlanningOptions, 'seq' | 'globalBatch'>> & { readonly devices?: number }

export interface PlannedJob {
  readonly planning: Planning
  /** The text of a job file at this path, with this plan. */
  readonly textWith: (plan: RankedPlan, out: string) => string
}

export async function planningOfJob(path: string, options: JobPlanningOptions, io: Io): Promise<PlannedJob> {
  let text = ''
  const read = (file: string) => {
    const content = io.read(file)
    if (file === path) text = content
    return content
  }
  const { job: given, problems } = await loadAnyJob(path, { ...io, read }, options)
  if (!given) throw new ProblemsError(problems, path)
  const { seq = given.training.seq, globalBatch = given.training.globalBatch } = options
  const job = { ...given, training: { ...given.training, seq, globalBatch } }
  const clusterAt = (devices: number | undefined) => loadCluster(options.cluster, io, devices)
  const cluster = clusterAt(options.devices ?? (findEntry(options.cluster) ? worldOfPlan(job.plan) : undefined))
  const asked = { constraints: options.constraint, ...(options.allow && { allow: options.allow }) }
  const request = requestOfJob(job, cluster, options.software, asked)
  return {
    planning: planningFor({ request, model: path, clusterAt }, options),
    textWith: ({ plan: { split } }, out) => {
      const planned = { ...job, plan: withoutDefaults(planOf(request, split), job) }
      return dirname(out) === dirname(path) && !detect(text)
        ? edited(text, planned, { seq: options.seq, globalBatch: options.globalBatch })
        : stringify(JSON.parse(JSON.stringify({ ...portable(job, path), plan: planned.plan })))
    },
  }
}

/** The fields of a plan that differ from their defaults. */
function withoutDefaults(plan: PlanInput, { model, training }: Job): Job['plan'] {
  const defaults: Readonly<Record<string, unknown>> = Job.parse({ model, training }).plan
  const differs = ([name, value]: [string, unknown]) => JSON.stringify(value) !== JSON.stringify(defaults[name])
  return Object.fromEntries(Object.entries(plan).filter(differs)) as Job['plan'] // for a file, where the rest holds by default
}

/** The file as its author wrote it, comments included, with another plan, and the sizes that were given. */
function edited(text: string, { plan }: Job, sizes: Readonly<Record<string, number | undefined>>): string {
  const document = parseDocument(text)
  for (const [name, value] of Object.entries(sizes)) if (value !== undefined) document.setIn(['training', name], value)
  document.set('plan', document.createNode(plan))
  return document.toString({ lineWidth: 0 })
}
