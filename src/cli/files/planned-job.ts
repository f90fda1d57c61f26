/** `plan job.yaml` and `explain job.yaml`: `--out` writes the job with the plan found. */
import { dirname } from 'node:path'
import { parseDocument, stringify } from 'yaml'
import { ProblemsError, printable, showSeconds } from '../../base/index.js'
import { findEntry } from '../../cluster/index.js'
import { detect, Job, type PlanInput, worldOfPlan } from '../../plan/index.js'
import { type FasterOrder, planOf, type RankedPlan, type Request, requestOfJob } from '../../search/index.js'
import type { Io } from '../io.js'
import { type Planning, type PlanningOptions, planningFor } from '../text/planning.js'
import { loadAnyJob, portable } from './load.js'
import { loadCluster } from './load-cluster.js'

type JobPlanningOptions = Omit<PlanningOptions, 'model' | 'lora' | 'precision' | 'seq' | 'globalBatch'> &
  Partial<Pick<PlanningOptions, 'seq' | 'globalBatch'>> & { readonly devices?: number }

export interface PlannedJob {
  readonly planning: Planning
  /** The text of a job file at this path, with this plan. */
  readonly textWith: (plan: RankedPlan, out: string, order?: FasterOrder) => string
}

export async function planningOfJob(path: string, options: JobPlanningOptions, io: Io): Promise<PlannedJob> {
  const { parsed, text } = await loadWithText(path, io, options)
  const { job: given, problems } = parsed
  if (!given) throw new ProblemsError(problems, path)
  const { seq = given.training.seq, globalBatch = given.training.globalBatch } = options
  const job = { ...given, training: { ...given.training, seq, globalBatch } }
  const clusterAt = (devices: number | undefined) => loadCluster(options.cluster, io, devices)
  const cluster = clusterAt(options.devices ?? (findEntry(options.cluster) ? worldOfPlan(job.plan) : undefined))
  const asked = { constraints: options.constraint, ...(options.allow && { allow: options.allow }) }
  const request = requestOfJob(job, cluster, options.software, asked)
  return {
    planning: planningFor({ request, model: path, clusterAt }, options),
    textWith: ({ plan: { split } }, out, order) => {
      const sizes = { seq: options.seq, globalBatch: options.globalBatch }
      return jobTextWith({ job, path, text, sizes }, { ...planOf(request, split), ...withOrder(order) }, out)
    },
  }
}

/** The field of a rank order that was found to be faster. */
export const withOrder = (order?: FasterOrder): Pick<PlanInput, 'rankOrder'> =>
  order ? { rankOrder: order.rankOrder } : {}

/** A job, with the text of its file. */
export async function loadWithText(path: string, io: Io, options: Parameters<typeof loadAnyJob>[2]) {
  let text = ''
  const read = (file: string) => {
    const content = io.read(file)
    if (file === path) text = content
    return content
  }
  return { parsed: await loadAnyJob(path, { ...io, read }, options), text }
}

interface Written {
  readonly job: Job
  readonly path: string
  readonly text: string
  /** Sizes that were given on the command line. */
  readonly sizes?: Readonly<Record<string, number | undefined>>
}

/** The text of a job file at `out` with another plan: an edited copy of a job file next to it, else a new job. */
export function jobTextWith({ job, path, text, sizes = {} }: Written, plan: PlanInput, out: string): string {
  const planned = { ...job, plan: withoutDefaults(plan, job) }
  return dirname(out) === dirname(path) && !detect(text)
    ? edited(text, planned, sizes)
    : stringify(JSON.parse(JSON.stringify({ ...portable(job, path), plan: planned.plan })))
}

/** Comments at the top of a job that was written: what it is the answer to. */
export function provenance(
  { cluster, software }: Request,
  { seconds, condition, by }: { seconds: number; condition?: string | undefined; by: string },
): string {
  return [
    `# The fastest plan found for ${cluster.devices} x ${printable(cluster.device.title)}, modeled for ${software.name}:`,
    `# ${showSeconds(seconds)}/step. Written by lockstep ${by}.`,
    ...(condition === undefined ? [] : [`# It fits if ${condition}.`]),
  ].join('\n')
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
