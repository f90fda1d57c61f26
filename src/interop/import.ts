/** A configuration of another framework as a job: what it is, read, completed with the model, and checked. */
import { either, error, hasErrors, type Problem, problemsOf, warning } from '../base/index.js'
import {
  check,
  detect,
  type Foreign,
  type ForeignFramework,
  foreignFrameworks,
  foreignNames,
  isMapping,
  Job,
  mappingOf,
  Plan,
} from '../plan/index.js'
import { withDataDropped } from './data-keys.js'
import { modelGiven } from './given-model.js'
import type { Given, Imported, JobDraft, Note } from './note.js'
import { readers } from './readers.js'

/**
 * Reads the configuration of another framework as a job. Never throws: what cannot be read is in the notes, with its
 * key or line.
 */
export function importConfig(text: string, given: Given = {}, from?: ForeignFramework): Imported {
  const found = sourceOf(text, from)
  if (!found) return nothing(text)
  const reader = readers[found.framework]
  if (!reader) return refused(found, `configs of ${foreignNames[found.framework]} cannot be read`)
  if (given.release !== undefined && found.framework !== 'megatron')
    return refused(found, '--release applies to Megatron-LM only', '--release')
  const imported = withDataDropped(withSeq(withModel(reader(text, given, found.format), given), given))
  return imported.job ? checked({ ...imported, job: withExperts(imported.job) }) : imported
}

/** How many experts there are, and a token meets, among the sizes of the model; under `moe` what is left. */
function withExperts(job: JobDraft): JobDraft {
  const { model } = job
  if (!isMapping(model) || !isMapping(model.moe)) return job
  const { experts, topK, ...moe } = model.moe
  return { ...job, model: { ...model, experts, topK, moe } }
}

function sourceOf(text: string, from?: ForeignFramework): Foreign | undefined {
  const found = detect(text)
  if (from === undefined || found?.framework === from) return found
  return { framework: from, format: found?.format ?? usualFormats[from] }
}

const usualFormats: Readonly<Record<ForeignFramework, Foreign['format']>> = {
  ...{ megatron: 'script', deepspeed: 'json', accelerate: 'yaml', torchtitan: 'toml', nemo: 'yaml' },
  ...{ bridge: 'yaml', nanotron: 'yaml', picotron: 'json', neox: 'yaml' },
}

const nothing = (text: string): Imported =>
  refused(
    { framework: 'megatron', format: 'script' },
    `${text.trim() === '' ? 'the file is empty' : 'not a config of a supported framework'}; set --from: ${either(foreignFrameworks)}`,
  )

const refused = (source: Foreign, message: string, path = ''): Imported => ({
  ...source,
  notes: [{ kind: 'refused', path, line: 1, message }],
})

/** The model that was named beside the file, where the file has none. */
function withModel(imported: Imported, { model }: Given): Imported {
  const { job } = imported
  if (!job || job.model !== undefined) return imported
  const note = (one: Note): Imported => ({ ...imported, notes: [...imported.notes, one] })
  if (model === undefined)
    return note({ kind: 'missing', path: 'model', field: 'model', message: 'set --model to a preset or a config.json' })
  const sizes = modelGiven({ model })
  const name = typeof model === 'string' ? model : 'config.json'
  if (!sizes)
    return note({
      kind: 'missing',
      path: 'model',
      field: 'model',
      message: `${name} is not a model that Lockstep can train`,
    })
  const carried: Note = { kind: 'carried', path: '--model', field: 'model', message: '' }
  return { ...imported, job: { model: sizes, ...job }, notes: [...imported.notes, carried] }
}

/** The sequence length that was given beside the file, where the file has none. */
function withSeq(imported: Imported, { seq }: Given): Imported {
  const { job, notes } = imported
  if (!job || seq === undefined) return imported
  const training = mappingOf(job.training)
  const message =
    training.seq === undefined || training.seq === seq ? '' : `the file sets ${training.seq}, which is used`
  const note: Note = { kind: message === '' ? 'carried' : 'notCarried', path: '--seq', field: 'training.seq', message }
  return {
    ...imported,
    job: { ...job, training: { ...training, seq: training.seq ?? seq } },
    notes: [...notes.filter(({ kind, path }) => kind !== 'missing' || path !== 'training.seq'), note],
  }
}

/** What `check` says. A job that lacks its model or its sequences is checked as far as it goes. */
function checked(imported: Imported): Imported {
  const { job = {}, world } = imported
  const whole = job.model !== undefined && isMapping(job.training) && job.training.seq !== undefined
  const parsed = whole ? Job.safeParse(job) : undefined
  if (parsed?.success)
    return { ...imported, problems: [...check(parsed.data), ...worldProblems(parsed.data.plan, world)] }
  if (parsed) return { ...imported, problems: problemsOf(parsed.error.issues, Job, job) }
  const plan = Plan.safeParse(job.plan ?? {})
  return { ...imported, problems: plan.success ? [] : problemsOf(plan.error.issues, Plan, job.plan) }
}

function worldProblems({ pp, dp, cp, tp }: Plan, world: number | undefined): Problem[] {
  const ranks = pp * dp * cp * tp
  if (world === undefined || ranks === world) return []
  return [warning('plan/ranks', 'plan', `pp ${pp} x dp ${dp} x cp ${cp} x tp ${tp} = ${ranks} ranks, not ${world}`)]
}

/** Whether a job came of it that can be run as it is. */
export const isRunnable = ({ job, notes, problems = [] }: Imported): boolean =>
  job !== undefined && !hasErrors(problems) && !notes.some(({ kind }) => kind === 'missing')

const severities = { refused: 'error', notCarried: 'warning', missing: 'warning' } as const

/** Every note as a problem: what is refused, not carried or missing; the rest, where there is something to say, as info. */
export function problemsOfNotes({ notes, problems = [] }: Imported) {
  const said = notes.flatMap(({ kind, path, line, message, field }) => {
    if (kind === 'cosmetic' || (kind === 'carried' && message === '')) return []
    const severity = kind in severities ? severities[kind as keyof typeof severities] : 'info'
    return [{ path, severity, kind, message, ...(line !== undefined && { line }), ...(field && { field }) }]
  })
  return [...said, ...problems.map(p => ({ ...p, kind: 'check' }))]
}

export const problemOfRefusal = ({ notes }: Imported): Problem[] =>
  notes
    .filter(({ kind }) => kind === 'refused')
    .map(({ path, message, line }) => ({
      ...error('import/refused', path, message),
      ...(line !== undefined && { line }),
    }))
