/**
 * A job file, read: text -> value -> model (a preset, a Hugging Face config, or sizes) -> schema -> check.
 * Every problem of a stage is reported at once, each with its line and column.
 */
import { hasErrors, meant, type Problem, problemsOf, type Spoken, saidAgain, shorten } from '../base/index.js'
import { fromHuggingFace, isPreset, ModelConfig, presetNames, presets } from '../model/index.js'
import { check, checkBeside } from './check.js'
import { parseText } from './document.js'
import { foreignProblem, foreignText } from './foreign.js'
import { hintsIn, isWritten, Job } from './job-value.js'
import { isMapping, type Mapping, mappingOf } from './mapping.js'
import { advised, clause, planPhrases, refused } from './phrases.js'
import { type Renamed, withTodaysNames } from './renamed-fields.js'
import { modelHint } from './synonyms.js'

export interface JobSource {
  /** Path of the job file; only for messages. */
  readonly path?: string
  /** The text of a file that the job names, relative to the job file. May throw: the message becomes a problem. */
  readonly readModel?: (path: string) => string
}

export interface ParsedJob {
  /** Present exactly if no problem is an error. */
  readonly job?: Job
  readonly problems: readonly Problem[]
  /** What the file itself states, without defaults. */
  readonly stated?: Mapping
  /** Adds line and column to a problem found later, by its path. */
  readonly locate: (problem: Problem) => Problem
}

/** Parses a job file (YAML or JSON) and checks it. Diagnostics have line and column. */
export function parseJob(text: string, source: JobSource = {}): ParsedJob {
  const { value: written, problems: unread, locate: located } = parseText(text)
  const { job: value, renamed } = withTodaysNames(written)
  const locate = (problem: Problem): Problem => ({ ...located(atAlias(problem, renamed)), path: problem.path })
  const elsewhere = foreignText(text, source.path)
  if (elsewhere) return { problems: [{ line: 1, column: 1, ...elsewhere }], locate }
  // A key written twice leaves a value that can still be judged.
  if (unread.some(p => p.code !== 'file/duplicate')) return { problems: inOrder(unread), locate }
  const found = (more: readonly Problem[], job?: Job): ParsedJob => {
    const problems = [...unread, ...[...renamed.flatMap(noteOf), ...more].map(locate)]
    return {
      ...(job && !hasErrors(problems) && { job }),
      problems: inOrder(problems),
      stated: mappingOf(value),
      locate,
    }
  }
  if (!isMapping(value)) return found([refused('', 'schema/type/job')])
  const foreign = foreignProblem(value, source.path)
  if (foreign) return found([foreign])

  const { model, problems } = resolveModel(value.model, source)
  const resolved = { ...value, model }
  const parsed = Job.safeParse(resolved)
  if (parsed.success) return found([...problems, ...check(parsed.data)], parsed.data)
  // What was wrong with the model was said where it was looked up.
  const where = { hints: hintsIn(resolved), phrases: planPhrases }
  const wrong = problemsOf(parsed.error.issues, Job, resolved, where).filter(
    p => !(hasErrors(problems) && /^model\b/.test(p.path)),
  )
  return found([...problems, ...wrong.filter(p => !isWritten(p, wrong)), ...errorsOfTheRest(resolved, wrong)])
}

/** What is said of an alias: today's name, or that the job has both. */
function noteOf({ from, old, now, both, twice }: Renamed): Problem[] {
  if (twice) return [refused(from, 'schema/renamed/twice', { old, now })]
  return both ? [] : [advised(from, 'schema/renamed', { old, now })]
}

/** A problem of a field under the name that it has in the file, where it is to be found. */
function atAlias(problem: Problem, renamed: readonly Renamed[]): Problem {
  const alias = renamed.find(({ to, twice }) => !twice && (problem.path === to || problem.path.startsWith(`${to}.`)))
  return alias ? { ...problem, path: alias.from + problem.path.slice(alias.to.length) } : problem
}

const most = 50

/** Sorts problems as they stand in the file. Beyond a screenful the list helps nobody: is it a job at all? */
function inOrder(problems: readonly Problem[]): Problem[] {
  const sorted = [...problems].sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0))
  const more = sorted.length - most
  if (more <= 0) return sorted
  const { line = 1, column = 1 } = sorted[most]
  return [...sorted.slice(0, most), { ...refused('', 'file/more', { more }), line, column }]
}

/** What can be said of the rest of the job, if it is one without the fields that the schema refused. */
function errorsOfTheRest(value: Mapping, wrong: readonly Problem[]): Problem[] {
  const fields = new Set(wrong.map(p => (p.code === 'schema/key' ? p.path : fieldOf(p.path))))
  const without = (inner: unknown, path: string): unknown =>
    isMapping(inner)
      ? Object.fromEntries(
          Object.entries(inner)
            .filter(([key]) => !fields.has(join(path, key)))
            .map(([key, field]) => [key, without(field, join(path, key))]),
        )
      : inner
  const parsed = Job.safeParse(without(value, ''))
  return parsed.success ? checkBeside(parsed.data, [...fields]).filter(p => p.severity === 'error') : []
}

/** 'plan.layers[3]' -> 'plan.layers': a field is left out as a whole. */
const fieldOf = (path: string): string => path.split(/[.[]/).slice(0, 2).join('.')

const join = (path: string, key: string): string => (path === '' ? key : `${path}.${key}`)

/** The model that a job means by `model: name`: a preset, or the path of a Hugging Face config.json. */
export function modelNamed(
  name: string,
  readModel?: (path: string) => string,
): { readonly model?: ModelConfig; readonly problems: readonly Problem[] } {
  const { model, problems } = resolveModel(name, readModel ? { readModel } : {})
  const parsed = hasErrors(problems) ? undefined : ModelConfig.safeParse(model)
  if (!parsed) return { problems }
  if (parsed.success) return { model: parsed.data, problems }
  const where = { hints: hintsIn({ model }), phrases: planPhrases }
  return { problems: [...problems, ...problemsOf(parsed.error.issues, ModelConfig, model, where)] }
}

interface ResolvedModel {
  readonly model: unknown
  readonly problems: readonly Problem[]
}

/** A name, a file or a preset with changes become sizes; everything else is for the schema to judge. */
function resolveModel(model: unknown, source: JobSource): ResolvedModel {
  if (typeof model === 'string') return namedModel(model, source)
  if (!isMapping(model) || !Object.hasOwn(model, 'preset')) return { model, problems: [] }
  const { preset, ...changes } = model
  if (typeof preset !== 'string')
    return {
      model,
      problems: [refused('model.preset', 'schema/type/preset', { instead: meant(preset, presetNames) })],
    }
  const base = named(preset, 'model.preset')
  return { model: isMapping(base.model) ? { ...base.model, ...changes } : model, problems: base.problems }
}

/** A config.json, a folder that has one, or a preset. */
function namedModel(model: string, source: JobSource): ResolvedModel {
  if (model.endsWith('.json')) return readConfig(model, source)
  const config = `${model.replace(/[/\\]+$/, '')}/config.json`
  return isPreset(model) || !canRead(config, source) ? named(model, 'model') : readConfig(config, source)
}

function canRead(path: string, { readModel }: JobSource): boolean {
  try {
    return readModel?.(path) !== undefined
  } catch {
    return false
  }
}

function named(name: string, path: string): ResolvedModel {
  if (isPreset(name)) return { model: presets[name], problems: [] }
  return {
    model: name,
    problems: [refused(path, 'model/preset', { name: shorten(name, 60), instead: presetHint(name) })],
  }
}

const presetHint = (name: string): Spoken =>
  modelHint(name) ?? clause('.preset-or-file', { meant: meant(name, presetNames) })

function readConfig(path: string, source: JobSource): ResolvedModel {
  const file = shorten(path, 200)
  const refuse = (problem: Problem): ResolvedModel => ({ model: path, problems: [problem] })
  if (!source.readModel) return refuse(refused('model', 'model/file/here', { path: file }))
  let raw: unknown
  try {
    raw = JSON.parse(source.readModel(path))
  } catch (e) {
    return refuse(
      e instanceof SyntaxError
        ? refused('model', 'model/file/json', { path: file, why: shorten(e.message, 120) })
        : refused('model', 'model/file', { path: file, why: e instanceof Error ? e.message : String(e) }),
    )
  }
  const { config, problems } = fromHuggingFace(raw)
  return { model: config, problems: problems.map(problem => inConfig(file, problem)) }
}

/** What is wrong in a file that the job names stands where it is named. */
function inConfig(file: string, problem: Problem): Problem {
  const { what, instead } = saidAgain(problem)
  const say = problem.severity === 'error' ? refused : advised
  const words = { file, key: problem.path ? `${problem.path}: ` : '', what, instead }
  return { ...say('model', 'model/config/file', words), code: problem.code }
}
