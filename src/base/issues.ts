/**
 * What a schema refused, as problems: one line per code of zod's issues, and every name it did not know comes with
 * the name that was probably meant.
 */
import type { z } from 'zod'
import { error, type Problem } from './problem.js'
import type { ProblemCode } from './problem-code.js'
import { describeValue, either, nearest, shorten } from './text.js'

type Issue = z.core.$ZodIssue
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
  key(path: string, key: string, value: unknown): string | undefined
  value(path: string, value: unknown): string | undefined
}

const noHints: Hints = { key: () => undefined, value: () => undefined }

interface Where {
  /** Where the value stands in its file. */
  readonly prefix?: Path
  readonly hints?: Hints
}

/** Everything wrong with `value`, as `schema` sees it. */
export function problemsOf(
  issues: readonly Issue[],
  schema: Schema,
  value: unknown,
  { prefix = [], hints = noHints }: Where = {},
): Problem[] {
  const problems = issues.flatMap(issue => explain(issue, { schema, value, prefix, hints }))
  // A whole number out of every range breaks two rules of one schema; the later one names the nearer bound.
  return [...new Map(problems.map(p => [`${p.code} ${p.path}`, p])).values()]
}

interface Context {
  readonly schema: Schema
  readonly value: unknown
  readonly prefix: Path
  readonly hints: Hints
}

function explain(issue: Issue, ctx: Context): Problem[] {
  const path = showPath([...ctx.prefix, ...issue.path])
  const value = valueAt(ctx.value, issue.path)
  const at = (code: ProblemCode, message: string, suggestion?: string) => [error(code, path, message, suggestion)]
  switch (issue.code) {
    case 'invalid_type':
      return value === undefined
        ? at('schema/missing', missing(schemaAt(ctx.schema, issue.path, ctx.value)))
        : at(
            'schema/type',
            `expected ${article(issue.expected)}, got ${describeValue(value)}`,
            ctx.hints.value(path, value) ?? unquoted(value),
          )
    case 'too_small':
      return [outOfRange(path, issue, value)]
    case 'too_big':
      return [outOfRange(path, issue, value)]
    case 'invalid_value':
      return value === undefined
        ? at('schema/missing', `is missing; one of ${either(issue.values.map(String))}`)
        : [
            unknownName(
              [...ctx.prefix, ...issue.path],
              value,
              ctx.hints.value(path, value) ?? didYouMean(value, issue.values.map(String)),
            ),
          ]
    case 'unrecognized_keys': {
      const known = keysOf(schemaAt(ctx.schema, issue.path, ctx.value), value)
      return issue.keys.map(key =>
        error(
          { code: 'schema/key', values: { key: shorten(key, 60) } },
          showPath([...ctx.prefix, ...issue.path, key]),
          `unknown key \`${shorten(key, 60)}\``,
          ctx.hints.key(path, key, valueAt(value, [key])) ?? didYouMean(key, known),
        ),
      )
    }
    case 'invalid_union':
      return explainUnion(issue, ctx)
    default:
      return at('schema/value', issue.message)
  }
}

/** The alternative whose kind fits the value speaks; if none does, the union as a whole. */
function explainUnion(issue: Extract<Issue, { code: 'invalid_union' }>, ctx: Context): Problem[] {
  const value = valueAt(ctx.value, issue.path)
  const path = [...ctx.prefix, ...issue.path]
  const hint = ctx.hints.value(showPath(path), value)
  if (value === undefined && issue.errors.length > 0)
    return [error('schema/missing', showPath(path), missing(schemaAt(ctx.schema, issue.path, ctx.value)))]
  const union = schemaAt(ctx.schema, issue.path.slice(0, issue.errors.length === 0 ? -1 : undefined), ctx.value)
  if (issue.errors.length === 0) {
    const names = [...(bare(union)?._zod.propValues?.[String(issue.path.at(-1))] ?? [])].map(String)
    return value === undefined
      ? [error('schema/missing', showPath(path), `is missing; one of ${either(names)}`)]
      : [unknownName(path, value, hint ?? didYouMean(value, names))]
  }
  const wrongKind = (e: Issue) =>
    e.path.length === 0 && ['invalid_type', 'invalid_value', 'invalid_format'].includes(e.code)
  const fitting = issue.errors.findIndex(errors => !errors.some(wrongKind))
  if (fitting >= 0) {
    const schema = alternatives(union)[fitting] ?? ctx.schema
    return problemsOf(issue.errors[fitting] ?? [], schema, value, { prefix: path, hints: ctx.hints })
  }
  const names = issue.errors.flat().flatMap(e => (e.code === 'invalid_value' ? e.values.map(String) : []))
  return typeof value === 'string' && names.length > 0
    ? [unknownName(path, value, hint ?? didYouMean(value, names))]
    : [error('schema/type', showPath(path), `${issue.message}, got ${describeValue(value)}`, hint)]
}

const missing = (schema: Schema | undefined): string => {
  const text = (schema as z.ZodType | undefined)?.description
  return text ? `is missing: ${text}` : 'is missing'
}

const articles: Readonly<Record<string, string>> = {
  int: 'a whole number',
  number: 'a number',
  string: 'a string',
  boolean: 'true or false',
  array: 'a list',
  object: 'a mapping',
}
const article = (expected: string): string => articles[expected] ?? expected

const bound = (issue: { readonly origin: string }, limit: number | bigint): string =>
  issue.origin === 'string' ? `${limit} characters` : issue.origin === 'array' ? `${limit} entries` : String(limit)

const unquoted = (value: unknown): string | undefined =>
  typeof value === 'string' && value.trim() !== '' && Number.isFinite(Number(value))
    ? `write ${Number(value)} without quotes`
    : value === 'yes' || value === 'no'
      ? `write ${value === 'yes'}`
      : undefined

function unknownName(path: Path, value: unknown, suggestion: string): Problem {
  const field = path.filter(part => typeof part === 'string').at(-1) ?? 'value'
  const word = typeof value === 'string' ? shorten(value, 60) : describeValue(value)
  const message = typeof value === 'string' ? `unknown ${field} \`${word}\`` : `unknown ${field}: ${word}`
  return error({ code: 'schema/name', values: { field, word } }, showPath(path), message, suggestion)
}

type RangeIssue = Extract<Issue, { code: 'too_small' | 'too_big' }>

const relations = { '>=': 'at least', '>': 'more than', '<=': 'at most', '<': 'less than' } as const

function outOfRange(path: string, issue: RangeIssue, value: unknown): Problem {
  const [limit, sign] = issue.code === 'too_small' ? [issue.minimum, '>' as const] : [issue.maximum, '<' as const]
  const is = issue.inclusive ? (`${sign}=` as const) : sign
  const got = describeValue(value)
  const message = `must be ${relations[is]} ${bound(issue, limit)}, got ${got}`
  return error({ code: 'schema/range', values: { is, limit: Number(limit), got } }, path, message)
}

export function didYouMean(word: unknown, words: readonly string[]): string {
  const near = typeof word === 'string' ? nearest(shorten(word, 60), words) : undefined
  return near === undefined ? `one of ${either(words)}` : `did you mean \`${near}\`?`
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
