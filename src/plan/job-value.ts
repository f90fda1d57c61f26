/** The schema of a whole job, and what a value that it refuses probably means. */
import { z } from 'zod'
import { type Hints, type Problem, problemsOf, refusal, takesAt, throwing } from '../base/index.js'
import { ModelConfig } from '../model/index.js'
import { besideIn } from './conversions.js'
import { LrSchedule, Optimizer } from './optimizer-schema.js'
import { planPhrases } from './phrases.js'
import { withTodaysNames } from './renamed-fields.js'
import { Data, JobFields, Plan, Training } from './schema.js'
import { keyHint, plainly, valueHint } from './synonyms.js'

const JobOfAnyAge = z.preprocess((job, ctx) => {
  const { job: now, renamed } = withTodaysNames(job)
  for (const { from, old, now, twice } of renamed)
    if (twice) ctx.issues.push(refusal(job, from.split('.'), 'schema/renamed/twice', { old, now }))
  return now
}, JobFields)

/**
 * The schema of a job (Zod). `Job.parse(value)` checks the shape, fills in defaults, and accepts fields under the names they
 * had before; it throws a `ProblemsError` with the diagnostics that `parseJob` returns. `check` finds what fields specify together.
 */
export const Job = throwing(JobOfAnyAge, (issues, value) => {
  const wrong = problemsOf(issues, JobOfAnyAge, value, { hints: hintsIn(value), phrases: planPhrases })
  return wrong.filter(problem => !isWritten(problem, wrong))
})
export type Job = z.output<typeof JobOfAnyAge>

/** Words of other frameworks, with what the rest of the file says. */
export function hintsIn(root: unknown): Hints {
  const beside = besideIn(root)
  const takes = (field: string, value: unknown) => takesAt(JobOfAnyAge, field.split('.'), value, root)
  return {
    key: (path, key, value) => keyHint({ key, path, value, beside, takes, ours: fieldNamed(key, path) }),
    value: (path, value) => valueHint(path.split('.').at(-1) ?? '', value),
  }
}

const sections: Readonly<Record<string, readonly string[]>> = {
  plan: Object.keys(Plan.in.shape),
  training: Object.keys(Training.shape),
  'training.optimizer': Optimizer.options.flatMap(({ shape }) => Object.keys(shape)),
  'training.lrSchedule': Object.keys(LrSchedule.shape),
  data: Object.keys(Data.shape),
  model: ModelConfig.options.flatMap(option => Object.keys(option.in.shape)),
}

/** A key that is right, in the wrong section, or but for its capitals: 'weight_decay' in training. */
function fieldNamed(key: string, path: string): string | undefined {
  const named = ([section, keys]: readonly [string, readonly string[]]) =>
    keys
      .filter(known => plainly(known) === plainly(key) && (section !== path || known !== key))
      .map(known => `${section}.${known}`)
  return Object.entries(sections).flatMap(named)[0]
}

/** Whether a missing field is what an unknown key should be written as: its suggestion names the field already. */
export const isWritten = (missing: Problem, all: readonly Problem[]): boolean =>
  missing.code === 'schema/missing' &&
  all.some(({ code, path, suggestion = '' }) => {
    const section = path.includes('.') ? `${path.slice(0, path.lastIndexOf('.'))}.` : ''
    const fields = [...suggestion.matchAll(/`([\w.]+): /g)].map(([, field]) => field)
    const within = (field: string) => field === missing.path || field.startsWith(`${missing.path}.`)
    return code === 'schema/key' && fields.some(field => within(field) || within(section + field))
  })
