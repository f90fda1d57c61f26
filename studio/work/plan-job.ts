/** The job as a file, and a file as a job: what the editor of the plan's page asks. */
import { type Job, jobSchema, ModelConfig, type Problem, parseJob, presets, worldOfPlan } from 'lockstep'
import { stringify } from 'yaml'
import { type Changes, jobSaid, type Link, linkOfJob, readLink } from './plan/link.js'

/** What `lockstep simulate job.yaml` reads: only what is not the default. */
export async function yaml(link: Link): Promise<{ readonly text: string }> {
  const { job, model } = await readLink(link)
  return { text: stringify(jobSaid(job, model)) }
}

export interface TextRead {
  readonly problems: readonly Problem[]
  /** The link of the job, where the text is one. */
  readonly link?: Changes
  readonly ranks?: number
}

/** Problems have their line and column. */
export async function readText(text: string): Promise<TextRead> {
  const { job, problems } = parseJob(text)
  if (!job) return { problems }
  return { problems, link: await linkOfJob(job, presetOf(job)), ranks: worldOfPlan(job.plan) }
}

/** The preset that a model is, if it is one. */
function presetOf({ model }: Job): string | undefined {
  const text = JSON.stringify(model)
  const isIt = (preset: unknown) => JSON.stringify(ModelConfig.safeParse(preset).data) === text
  return Object.entries(presets).find(([, preset]) => isIt(preset))?.[0]
}

/** For completion and for what is shown over a word. */
export const schema = (_: null) => jobSchema()
