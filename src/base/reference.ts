/** The fields of a schema, one after the other, for people: where each stands, what it takes, its default and an example. */
import type { z } from 'zod'

/** JSON schema as far as the schemas of this project use it. */
export interface JsonSchema {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly default?: unknown
  readonly examples?: readonly unknown[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly items?: JsonSchema
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
  readonly pattern?: string
  readonly [more: string]: unknown
}

export interface FieldReference {
  /** 'plan.tp', 'training.optimizer.beta1', 'training.batchRamp[].until' */
  readonly path: string
  /** Of fields that only some alternatives have: 'kind adamw or lamb'. */
  readonly of?: string
  readonly takes: string
  readonly meaning: string
  readonly required: boolean
  readonly default?: unknown
  readonly example?: unknown
}

/** `samples` are files of the kind: what they hold is an example where the schema has none. */
export const fieldsOfSchema = (schema: JsonSchema, samples: readonly unknown[] = []): FieldReference[] =>
  merged(fieldsIn(schema, '', undefined)).map(field => sampled(field, samples))

function sampled(field: FieldReference, samples: readonly unknown[]): FieldReference {
  const path = field.path.split(/\.|(?=\[)/)
  const [found] = samples.map(sample => valueAt(sample, path)).filter(value => value !== undefined)
  return found === undefined || typeof found === 'object' ? field : { ...field, example: found }
}

/** 'levels', '[]', 'size': of a list its first entry. */
const valueAt = (value: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>(
    (at, key) => (at as Record<string, unknown> | null | undefined)?.[key === '[]' ? '0' : key], // a sample is plain data
    value,
  )

function fieldsIn(schema: JsonSchema, path: string, of: string | undefined): FieldReference[] {
  const { properties, required = [], items } = schema
  const options = schema.oneOf ?? schema.anyOf ?? []
  const own = Object.entries(properties ?? {}).flatMap(([key, field]) => {
    const at = path === '' ? key : `${path}.${key}`
    // What tells alternatives apart is said by `of`.
    if (of !== undefined && field.const !== undefined) return fieldOf(at, field, { required: true, of: undefined })
    return [...fieldOf(at, field, { required: required.includes(key), of }), ...fieldsIn(field, at, of)]
  })
  const inItems = items ? fieldsIn(items, `${path}[]`, of) : []
  return [...own, ...inItems, ...options.flatMap(option => fieldsIn(option, path, kindOf(option) ?? of))]
}

/** 'family llama': the literal that names an alternative. */
function kindOf({ properties = {} }: JsonSchema): string | undefined {
  const [key, field] = Object.entries(properties).find(([, { const: literal }]) => literal !== undefined) ?? []
  return key === undefined ? undefined : `${key} ${field?.const}`
}

function fieldOf(
  path: string,
  schema: JsonSchema,
  { required, of }: { readonly required: boolean; readonly of: string | undefined },
): FieldReference[] {
  const usual = schema.default
  const example = exampleOf(schema)
  return [
    {
      ...{ path, takes: takenBy(schema), meaning: schema.description ?? '', required },
      ...(of !== undefined && { of }),
      ...(usual !== undefined && { default: usual }),
      ...(example !== undefined && { example }),
    },
  ]
}

/** A field that several alternatives have alike is one. */
function merged(fields: readonly FieldReference[]): FieldReference[] {
  const known = new Map<string, FieldReference>()
  for (const field of fields) {
    const { of, ...rest } = field
    const isKind = of === undefined
    const key = isKind ? field.path : JSON.stringify(rest)
    const before = known.get(key)
    if (!before) known.set(key, field)
    else if (isKind) known.set(key, { ...before, takes: joined(before.takes, field.takes, ' | ') })
    else known.set(key, { ...before, of: alternatives(before.of ?? '', of) })
  }
  return [...known.values()]
}

const joined = (a: string, b: string, mark: string): string => (a.split(mark).includes(b) ? a : `${a}${mark}${b}`)

/** 'kind adamw' and 'kind lamb' -> 'kind adamw, lamb' */
const alternatives = (before: string, of: string): string => {
  const [name, value] = of.split(' ')
  return before.startsWith(`${name} `) ? joined(before, value, ', ') : joined(before, of, ', ')
}

function exampleOf({ examples, default: usual, const: literal, enum: words, anyOf, oneOf }: JsonSchema): unknown {
  if (examples && examples.length > 0) return examples[0]
  if (literal !== undefined) return literal
  if (words) return words.find(word => word !== usual) ?? words[0]
  const [found] = [...(anyOf ?? []), ...(oneOf ?? [])].map(exampleOf).filter(value => value !== undefined)
  return found ?? usual
}

/** What may be written: '1 to 8', 'a | b', 'a mapping'. */
function takenBy(schema: JsonSchema): string {
  const options = schema.anyOf ?? schema.oneOf
  if (options) return [...new Set(options.map(takenBy))].join(' | ')
  if (schema.const !== undefined) return String(schema.const)
  if (schema.enum) return schema.enum.join(' | ')
  const types = typeof schema.type === 'string' ? [schema.type] : (schema.type ?? ['anything'])
  return types.map(type => kinds[type]?.(schema) ?? type).join(' | ')
}

const kinds: Readonly<Record<string, (schema: JsonSchema) => string>> = {
  integer: schema => `integer${range(schema)}`,
  number: schema => `number${range(schema)}`,
  string: ({ pattern }) => (pattern === '\\.csv$' ? 'a .csv file' : 'text'),
  boolean: () => 'true | false',
  array: ({ items }) => `list${items ? ` of ${takenBy(items)}` : ''}`,
  object: () => 'mapping',
}

/** Ceilings that only catch slips of the keyboard say nothing. */
function range({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: JsonSchema): string {
  const least = minimum ?? exclusiveMinimum
  const most = maximum ?? exclusiveMaximum
  const upper = most !== undefined && most <= 100 ? most : undefined
  if (least !== undefined && upper !== undefined) return `, ${least} to ${upper}`
  if (least !== undefined && least > -(2 ** 40))
    return exclusiveMinimum === undefined ? `, ${least} or more` : `, above ${least}`
  return ''
}

type ToJson = typeof z.toJSONSchema

/** What a file may hold, before defaults and conversions. `toJson` is given, so that nothing here loads the library. */
export const schemaAsJson = (schema: z.core.$ZodType, toJson: ToJson): JsonSchema =>
  toJson(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const { type, defaultValue } = zodSchema._zod.def as { readonly type: string; readonly defaultValue?: unknown } // typed per class only
      if (type === 'default' && defaultValue !== undefined) jsonSchema.default ??= defaultValue as never // plain data
    },
  }) as JsonSchema
