/**
 * What a schema refused, as problems: one line per code of zod's issues, and every name it did not know comes with
 * the name that was probably meant.
 */
import type { z } from 'zod'
import { english, type Filling, type Gap, type Phrases, type Spoken, speak, spoken } from './phrase.js'
import { phrasing, problemSaid } from './phrasing.js'
import { type Problem, ProblemsError } from './problem.js'
import { type SchemaPhrases, schemaPhrases } from './schema-phrases.js'
import { nearest, shorten } from './text.js'

export type Issue = z.core.$ZodIssue
type Schema = z.core.$ZodType
type Path = readonly PropertyKey[]

/** ['plan', 'layers', 2] -> 'plan.layers[2]' */
export const showPath = (path: Path): string =>
  path
    .map(part => (typeof part === 'number' ? `[${part}]` : `.${shorten(String(part), 60)}`))
    .join('')
    .replace(/^\./, '')

/** What was probably meant by a word that no schema knows, beyond a slip of the keyboard. */
export interface Hints {
  key(path: string, key: string, value: unknown): Spoken | undefined
  value(path: string, value: unknown): Spoken | undefined
}

const noHints: Hints = { key: () => undefined, value: () => undefined }

interface Where {
  /** Where the value stands in its file. */
  readonly prefix?: Path
  readonly hints?: Hints
  /** Those of schemas, and those that hints are said in. */
  readonly phrases?: Phrases
}

/** Everything wrong with `value`, as `schema` sees it. */
export function problemsOf(
  issues: readonly Issue[],
  schema: Schema,
  value: unknown,
  { prefix = [], hints = noHints, phrases = schemaPhrases }: Where = {},
): Problem[] {
  const problems = issues.flatMap(issue => explain(issue, { schema, value, prefix, hints, phrases }))
  // A whole number out of every range breaks two rules of one schema; the later one names the nearer bound.
  return [...new Map(problems.map(p => [`${p.code} ${p.path}`, p])).values()]
}

/** The same schema; its `parse` throws a `ProblemsError` with the diagnostics, not Zod's list of issues. */
export function throwing<S extends z.ZodType>(
  schema: S,
  problems: (issues: readonly Issue[], value: unknown) => readonly Problem[] = (issues, value) =>
    problemsOf(issues, schema, value),
): S {
  const parse = (value: unknown): z.output<S> => {
    const { success, data, error } = schema.safeParse(value)
    if (success) return data
    throw new ProblemsError(problems(error.issues, value))
  }
  return Object.assign(schema, { parse })
}

interface Context {
  readonly schema: Schema
  readonly value: unknown
  readonly prefix: Path
  readonly hints: Hints
  readonly phrases: Phrases
}

const { clause } = phrasing(schemaPhrases)

type Filled<Name extends keyof SchemaPhrases> = Filling<SchemaPhrases[Name]>

/** A problem of the schema's own, in a context that may know more phrases. */
const said = <Name extends Exclude<keyof SchemaPhrases, `.${string}`>>(
  ctx: Context,
  path: Path,
  phrase: Name,
  ...filling: Filled<Name>
): Problem => problemSaid('error', showPath([...ctx.prefix, ...path]), spoken(phrase, filling), ctx.phrases)

function explain(issue: Issue, ctx: Context): Problem[] {
  const { path } = issue
  const value = valueAt(ctx.value, path)
  switch (issue.code) {
    case 'invalid_type': {
      if (value === undefined) return [missing(ctx, path)]
      const instead = ctx.hints.value(showPath([...ctx.prefix, ...path]), value) ?? unquoted(value) ?? ''
      return [said(ctx, path, 'schema/type/kind', { kind: kindOf(issue.expected), got: valueSaid(value), instead })]
    }
    case 'too_small':
      return [outOfRange(ctx, issue, value)]
    case 'too_big':
      return [outOfRange(ctx, issue, value)]
    case 'invalid_value':
      return [unknownName(ctx, path, value, issue.values.map(String))]
    case 'unrecognized_keys': {
      const known = keysOf(schemaAt(ctx.schema, path, ctx.value), value)
      const hint = (key: string) =>
        ctx.hints.key(showPath([...ctx.prefix, ...path]), key, valueAt(value, [key])) ?? meant(key, known)
      return issue.keys.map(key =>
        said(ctx, [...path, key], 'schema/key', { key: shorten(key, 60), instead: hint(key) }),
      )
    }
    case 'invalid_union':
      return explainUnion(issue, ctx)
    case 'custom':
      if (issue.params)
        return [problemSaid('error', showPath([...ctx.prefix, ...path]), saidBy(issue.params), ctx.phrases)]
      return [said(ctx, path, 'schema/value', { expected: issue.message })]
    default:
      return [said(ctx, path, 'schema/value', { expected: issue.message })]
  }
}

/** What a schema of ours refuses by itself comes with a phrase: `ctx.issues.push(refusal(text, phrase, values))`. */
const saidBy = (params: Readonly<Record<string, unknown>>): Spoken => params as unknown as Spoken // as `refusal` made it

/** The alternative whose kind fits the value speaks; if none does, the union as a whole. */
function explainUnion(issue: Extract<Issue, { code: 'invalid_union' }>, ctx: Context): Problem[] {
  const { path } = issue
  const value = valueAt(ctx.value, path)
  if (value === undefined && issue.errors.length > 0) return [missing(ctx, path)]
  const union = schemaAt(ctx.schema, path.slice(0, issue.errors.length === 0 ? -1 : undefined), ctx.value)
  if (issue.errors.length === 0) {
    const names = [...(bare(union)?._zod.propValues?.[String(path.at(-1))] ?? [])].map(String)
    return [unknownName(ctx, path, value, names)]
  }
  const wrongKind = (e: Issue) =>
    e.path.length === 0 && ['invalid_type', 'invalid_value', 'invalid_format'].includes(e.code)
  const fitting = issue.errors.findIndex(errors => !errors.some(wrongKind))
  if (fitting >= 0) {
    const schema = alternatives(union)[fitting] ?? ctx.schema
    return problemsOf(issue.errors[fitting] ?? [], schema, value, { ...ctx, prefix: [...ctx.prefix, ...path] })
  }
  const names = issue.errors.flat().flatMap(e => (e.code === 'invalid_value' ? e.values.map(String) : []))
  const instead = ctx.hints.value(showPath([...ctx.prefix, ...path]), value) ?? ''
  // Where one name is all there is beside what is no name, the union says what it takes.
  const isName = (word: string) => instead !== '' || names.length > 1 || nearest(word, names) !== undefined
  if (typeof value === 'string' && names.length > 0 && isName(shorten(value, 60)))
    return [unknownName(ctx, path, value, names)]
  return [said(ctx, path, 'schema/type/said', { expected: issue.message, got: valueSaid(value), instead })]
}

function missing(ctx: Context, path: Path): Problem {
  const about = (schemaAt(ctx.schema, path, ctx.value) as z.ZodType | undefined)?.description
  return about ? said(ctx, path, 'schema/missing/about', { about }) : said(ctx, path, 'schema/missing')
}

const kinds: Readonly<Record<string, Spoken>> = {
  int: clause('.int'),
  number: clause('.number'),
  string: clause('.string'),
  boolean: clause('.boolean'),
  array: clause('.array'),
  object: clause('.object'),
}
const kindOf = (expected: string): Gap => (Object.hasOwn(kinds, expected) ? kinds[expected] : expected)

/** What was found, in a few words: 'the string "abc"', '7', 'a list'. Long strings are cut, so that junk stays one line. */
export function valueSaid(value: unknown): Gap {
  if (typeof value === 'string')
    return value === '' ? clause('.empty') : clause('.text', { text: JSON.stringify(shorten(value, 40)) })
  if (value === null) return clause('.null')
  if (Array.isArray(value)) return clause('.array')
  return typeof value === 'object' ? clause('.object') : String(value)
}

/** The same in English. */
export const describeValue = (value: unknown): string =>
  speak(spoken('schema/value', [{ expected: valueSaid(value) }]), english(schemaPhrases))[0]

const limitOf = ({ origin }: { readonly origin: string }, limit: number): Gap =>
  origin === 'string' ? clause('.characters', { limit }) : origin === 'array' ? clause('.entries', { limit }) : limit

const unquoted = (value: unknown): Spoken | undefined =>
  typeof value === 'string' && value.trim() !== '' && Number.isFinite(Number(value))
    ? clause('.unquoted', { value: Number(value) })
    : value === 'yes' || value === 'no'
      ? clause('.write', { value: String(value === 'yes') })
      : undefined

function unknownName(ctx: Context, path: Path, value: unknown, names: readonly string[]): Problem {
  if (value === undefined) return said(ctx, path, 'schema/missing/names', { names })
  const whole = [...ctx.prefix, ...path]
  const instead = ctx.hints.value(showPath(whole), value) ?? meant(value, names)
  const field = whole.filter(part => typeof part === 'string').at(-1) ?? 'value'
  return typeof value === 'string'
    ? said(ctx, path, 'schema/name/word', { field, word: shorten(value, 60), instead })
    : said(ctx, path, 'schema/name/value', { field, got: valueSaid(value), instead })
}

type RangeIssue = Extract<Issue, { code: 'too_small' | 'too_big' }>

function outOfRange(ctx: Context, issue: RangeIssue, value: unknown): Problem {
  const instead = ctx.hints.value(showPath([...ctx.prefix, ...issue.path]), value) ?? ''
  const values = (limit: number | bigint) => ({ limit: limitOf(issue, Number(limit)), got: valueSaid(value), instead })
  return issue.code === 'too_small'
    ? said(ctx, issue.path, issue.inclusive ? 'schema/range/least' : 'schema/range/above', values(issue.minimum))
    : said(ctx, issue.path, issue.inclusive ? 'schema/range/most' : 'schema/range/below', values(issue.maximum))
}

/** The name that was probably meant, or all of them. */
export function meant(word: unknown, words: readonly string[]): Spoken {
  const near = typeof word === 'string' ? nearest(shorten(word, 60), words) : undefined
  return near === undefined ? clause('.one-of', { words: [...words] }) : clause('.did-you-mean', { word: near })
}

export const didYouMean = (word: unknown, words: readonly string[]): string =>
  speak(meant(word, words), english(schemaPhrases))[0]

/** What a schema's own check refuses, for `ctx.issues.push`. */
export const refusal = <Name extends Exclude<keyof SchemaPhrases, `.${string}`>>(
  input: unknown,
  path: readonly string[],
  phrase: Name,
  ...filling: Filled<Name>
) => {
  const params = spoken(phrase, filling)
  const [message] = speak(params, english(schemaPhrases))
  return { code: 'custom' as const, input, path: [...path], message, params: { ...params } }
}

/** A number may stand for a mapping of which it is one entry. */
const valueAt = (value: unknown, path: Path): unknown =>
  path.reduce(
    (at: unknown, part) =>
      typeof at === 'number' ? at : (at as Record<PropertyKey, unknown> | null | undefined)?.[part], // zod found it there
    value,
  )

/** Zod's definitions as far as the schemas of this project use them. */
interface Def {
  readonly type: string
  readonly innerType?: Schema
  readonly in?: Schema
  readonly out?: Schema
  readonly element?: Schema
  readonly shape?: Readonly<Record<string, Schema>>
  readonly options?: readonly Schema[]
}
const defOf = (schema: Schema): Def => schema._zod.def as unknown as Def // the library types it per class only

/** Without what wraps it: defaults, optional, transforms. */
function bare(schema: Schema | undefined): Schema | undefined {
  if (!schema) return undefined
  const { innerType, in: before, out } = defOf(schema)
  // A transform says nothing of what is on its other side.
  const inner = innerType ?? (before && defOf(before).type === 'transform' ? out : before)
  return inner ? bare(inner) : schema
}

const alternatives = (schema: Schema | undefined): readonly Schema[] => {
  const inner = bare(schema)
  return inner === undefined ? [] : (defOf(inner).options ?? [inner])
}

/** The alternative that a value's discriminator names, or the first of its kind. */
function chosen(schema: Schema | undefined, value: unknown): Schema | undefined {
  const fits = (option: Schema): boolean => {
    const def = defOf(bare(option) ?? option)
    if (def.type === 'array') return Array.isArray(value)
    const literals = Object.entries((bare(option) ?? option)._zod.propValues ?? {})
    return def.type === 'object' && literals.every(([key, allowed]) => allowed.has(valueAt(value, [key]) as string)) // a set of literals
  }
  const options = alternatives(schema)
  return bare(options.length === 1 ? options[0] : options.find(fits))
}

function schemaAt(schema: Schema, path: Path, value: unknown): Schema | undefined {
  let at: Schema | undefined = schema
  path.forEach((part, i) => {
    const inside = chosen(at, valueAt(value, path.slice(0, i)))
    const def = inside && defOf(inside)
    at = typeof part === 'number' ? def?.element : def?.shape?.[String(part)]
  })
  return at
}

/** Whether the field at a path would take a value, in a file that says the rest; true where the schema depends on what is not there. */
export function takesAt(schema: Schema, path: Path, value: unknown, root: unknown): boolean {
  const at = schemaAt(schema, path, root)
  return at === undefined || (at as z.ZodType).safeParse(value).success // every schema of ours is one
}

const keysOf = (schema: Schema | undefined, value: unknown): string[] => {
  const inside = chosen(schema, value)
  return Object.keys((inside && defOf(inside).shape) ?? {})
}
