/** The job of a template; for another model or another number of devices what it says of the plan is searched for again. */
import { error, type Problem, ProblemsError } from '../base/index.js'
import { clusterOf } from '../cluster/index.js'
import { planInput } from '../estimate/index.js'
import { isPreset, type ModelConfig } from '../model/index.js'
import {
  commentedJob,
  modelNamed,
  parseJob,
  type Template,
  type TemplateJob,
  type TemplateName,
  Training,
  templates,
} from '../plan/index.js'
import { findPlans } from './planner.js'
import { requestOf } from './request.js'

export interface Answers {
  readonly template: TemplateName
  /** A preset, or a config.json. */
  readonly model?: string | undefined
  /** Where the tokens come from, as `data.source`. */
  readonly data?: string | undefined
  readonly devices?: number | undefined
}

export interface Draft {
  /** What it is, in a line. */
  readonly title: string
  readonly text: string
  /** What to run next. */
  readonly next: readonly string[]
}

/**
 * Writes a commented job file from answers, as `lockstep init` does. `file` is only named in comments. Throws what is
 * wrong with the answers.
 */
export function draftJob(answers: Answers, file: string, readModel?: (path: string) => string): Draft {
  const template: Template = templates[answers.template]
  const { model = template.job.model, data, devices } = answers
  const asked = { ...template.job, model, ...(data !== undefined && { data: { source: data } }) }
  const isOther = answers.model !== undefined || (devices !== undefined && devices !== template.cluster?.devices)
  const job =
    template.cluster && isOther ? planned(asked, template.cluster, { devices, readModel }) : laid(asked, devices)
  const title = template.cluster && isOther ? titleOf(asked, template.cluster, answers) : template.title
  const text = commentedJob(job, { ...template, title }, file)
  const { problems } = parseJob(text, readModel ? { readModel } : {})
  const wrong = problems.filter(({ severity }) => severity === 'error')
  if (wrong.length > 0) throw new ProblemsError(wrong.map(withoutPlace))
  return { title, text, next: template.next.map(line => line.replace('FILE', file)) }
}

/** Of a template's job for another model, or another number of devices. */
const titleOf = (job: TemplateJob, on: NonNullable<Template['cluster']>, { template, devices }: Answers): string =>
  `${typeof job.model === 'string' ? job.model : 'a model'} on ${devices ?? on.devices} x ${on.device}, a new plan for the template ${template}`

/** The answers have no lines. */
const withoutPlace = ({ line: _, column: __, ...problem }: Problem): Problem => problem

/** On this machine devices are ranks: all of them share the batch. */
const laid = (job: TemplateJob, ranks: number | undefined): TemplateJob =>
  ranks === undefined ? job : { ...job, plan: { dp: ranks, zero: ranks > 1 ? 1 : 0 } }

interface Planned {
  readonly devices: number | undefined
  readonly readModel: ((path: string) => string) | undefined
}

function planned(
  job: TemplateJob,
  cluster: NonNullable<Template['cluster']>,
  { devices, readModel }: Planned,
): TemplateJob {
  const { seq, globalBatch } = Training.parse(job.training)
  if (typeof job.model !== 'string')
    throw new ProblemsError([
      error('plan/unwritable', '--devices', 'this template has a plan only for its own number of devices'),
    ])
  const { model, problems } = modelNamed(job.model, readModel)
  if (!model) throw new ProblemsError(problems)
  const on = clusterOf(cluster.device, devices ?? cluster.devices)
  const request = requestOf({ model, seq, globalBatch, cluster: on, precision: 'bf16' })
  const [best] = findPlans(request, { top: 1, simulate: 0 }).listed
  if (!best)
    throw new ProblemsError([
      error(
        'plan/memory',
        '--devices',
        `no plan of ${job.model} fits on ${on.devices} x ${cluster.device}`,
        'use more devices, or a smaller model',
      ),
    ])
  return { ...job, model: padded(job.model, request.model, model), plan: planInput(best.plan.split, 'bf16') }
}

/** The search pads a vocabulary that tp could not split. */
const padded = (name: string, to: ModelConfig, from: ModelConfig): TemplateJob['model'] =>
  to.family === 'mlp' || from.family === 'mlp' || to.vocab === from.vocab
    ? name
    : isPreset(name)
      ? { preset: name, vocab: to.vocab }
      : { ...to }
