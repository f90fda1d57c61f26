/** A JSON schema read by people who write YAML: which keys may stand where the cursor is, which values, and what they mean. */
export interface Schema {
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly type?: string | readonly string[]
}

/** The keys that lead to the last of these lines, by their indentation. */
export function pathAt(lines: readonly string[]): string[] {
  const path: { readonly indent: number; readonly key: string }[] = []
  for (const line of lines) {
    const [, space, key] = line.match(/^(\s*)([\w-]*)/) ?? []
    if (space === undefined || key === undefined || line.trim() === '' || line.trim().startsWith('#')) continue
    const indent = space.length
    while (path.length > 0 && path.at(-1)!.indent >= indent) path.pop()
    path.push({ indent, key })
  }
  // An empty last line stands where its spaces say.
  const last = lines.at(-1) ?? ''
  if (last.trim() === '') {
    while (path.length > 0 && path.at(-1)!.indent >= last.length) path.pop()
    path.push({ indent: last.length, key: '' })
  }
  return path.map(({ key }) => key)
}

const ways = (schema: Schema): readonly Schema[] => [
  schema,
  ...[...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap(ways),
]

function schemasAt(schema: Schema, path: readonly string[]): readonly Schema[] {
  return path.reduce<readonly Schema[]>(
    (all, key) => all.flatMap(ways).flatMap(({ properties }) => (properties?.[key] ? [properties[key]] : [])),
    [schema],
  )
}

/** Keys that may stand there, with their meanings. */
export function keysAt(
  schema: Schema,
  path: readonly string[],
): (readonly [key: string, meaning: string | undefined])[] {
  const found = new Map<string, string | undefined>()
  for (const { properties = {} } of schemasAt(schema, path).flatMap(ways))
    for (const [key, inner] of Object.entries(properties)) if (!found.has(key)) found.set(key, inner.description)
  return [...found]
}

export function valuesAt(schema: Schema, path: readonly string[]): string[] {
  const values = schemasAt(schema, path)
    .flatMap(ways)
    .flatMap(one => [
      ...(one.enum ?? []),
      ...(one.const === undefined ? [] : [one.const]),
      ...(one.type === 'boolean' ? [true, false] : []),
    ])
  return [...new Set(values.map(String))]
}

export const describe = (schema: Schema, path: readonly string[]): string | undefined =>
  schemasAt(schema, path).find(({ description }) => description)?.description
