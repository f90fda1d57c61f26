/** lockstep config: the fields of a job or a cluster file, as the schemas have them. */
import { error, type FieldReference, nearest, ProblemsError, wrapped } from '../../base/index.js'
import { clusterFields, clusterSchema } from '../../cluster/index.js'
import { jobFields, jobSchema, pathToday } from '../../plan/index.js'
import type { Io } from '../io.js'

export interface ConfigOptions {
  readonly schema?: boolean
  readonly json?: boolean
}

const files = {
  job: { fields: jobFields, schema: jobSchema },
  cluster: { fields: clusterFields, schema: clusterSchema },
} as const

export function configCommand(
  { file, field }: { readonly file: keyof typeof files; readonly field?: string },
  { schema, json }: ConfigOptions,
  io: Io,
): number {
  if (schema) {
    io.out(`${JSON.stringify(files[file].schema(), null, 2)}\n`)
    return 0
  }
  const today = file === 'job' && field !== undefined ? pathToday(field) : field
  if (today !== field && io.verbosity !== 'quiet') io.err(`note: \`${field}\` is now \`${today}\`\n`)
  const fields = chosen(files[file].fields(), today)
  io.out(json ? `${JSON.stringify(fields, null, 2)}\n` : referenceText(fields, file))
  return 0
}

function chosen(fields: readonly FieldReference[], path: string | undefined): readonly FieldReference[] {
  if (path === undefined) return fields
  const found = fields.filter(
    field => field.path === path || (/^[.[]/.test(field.path.slice(path.length)) && field.path.startsWith(path)),
  )
  if (found.length > 0) return found
  const paths = [...new Set(fields.map(field => field.path))]
  // By its last word too: who asks for `tp` means plan.tp.
  const meant = paths.find(known => known.split('.').at(-1) === path) ?? nearest(path, paths)
  throw new ProblemsError([
    error(
      'schema/key',
      path,
      'there is no such field',
      meant === undefined ? 'run the command without a field for the list' : `did you mean \`${meant}\`?`,
    ),
  ])
}

/** A field per block: its path with the default, then the meaning, what it takes and an example. */
function referenceText(fields: readonly FieldReference[], file: string): string {
  const blocks = fields.flatMap(({ path, of, takes, required, default: usual, example, meaning }) => {
    const first = required ? `${path} (required)` : usual === undefined ? path : `${path}: ${shown(usual)}`
    const what = [meaning, of && `(${of})`].filter(Boolean).join(' ')
    const sample = example === undefined ? '' : `, such as ${shown(example)}`
    return [
      first,
      ...wrapped(`    ${[what, `${short(takes)}${sample}`].filter(Boolean).join('; ')}`, undefined, '    '),
    ]
  })
  return [
    ...blocks,
    '',
    `For editors: lockstep config ${file} --schema > ${file}.schema.json; the first line of the file is`,
    `# yaml-language-server: $schema=./${file}.schema.json`,
    '',
  ].join('\n')
}

const most = 60
const short = (text: string): string => (text.length > most ? `${text.slice(0, most - 4)} ...` : text)

/** As YAML writes it on one line. */
const shown = (value: unknown): string =>
  typeof value === 'string'
    ? value
    : short(
        JSON.stringify(value)
          .replaceAll('"', '')
          .replaceAll(/([:,])/g, '$1 '),
      )
