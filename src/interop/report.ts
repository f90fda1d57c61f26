/** The import report: every key of the file is mapped, derived, defaulted, dropped, missing or ignored. */
import { shorten, wrapped } from '../base/index.js'
import { foreignNames } from '../plan/index.js'
import { syntheticNote, trainsOnSynthetic } from './data-keys.js'
import type { Imported, Note, NoteKind } from './note.js'

const titles: Readonly<Record<NoteKind, string>> = {
  refused: 'Refused',
  missing: 'Missing in the file',
  notCarried: 'Dropped',
  derived: 'Derived',
  assumed: 'Defaulted',
  carried: 'Mapped',
  cosmetic: 'Ignored (no effect on the step)',
}

export function importReport(imported: Imported): string {
  const { framework, format, notes, problems = [] } = imported
  const lines = [`${foreignNames[framework]} (${format}): ${countsOf(notes)}`]
  for (const [kind, title] of Object.entries(titles) as [NoteKind, string][]) {
    // of the record above
    const of = notes.filter(note => note.kind === kind)
    if (of.length === 0) continue
    lines.push('', `${title}:`)
    if (kind === 'cosmetic') lines.push(...indented(of.map(({ path }) => path).join(', ')))
    else lines.push(...of.flatMap(note => indented(sentenceOf(note, imported))))
  }
  if (trainsOnSynthetic(imported)) lines.push('', `Data: none imported; ${syntheticNote}.`)
  if (problems.length > 0) lines.push('', 'Problems of the job (lockstep check):')
  for (const { severity, path, message } of problems) lines.push(...indented(`${severity} ${path}: ${message}`))
  return `${lines.join('\n')}\n`
}

const countTitle = (kind: NoteKind): string => titles[kind].toLowerCase().replace(/ [(].*| in the file/, '')

function countsOf(notes: readonly Note[]): string {
  const count = (kind: NoteKind) => new Set(notes.filter(note => note.kind === kind).map(({ path }) => path)).size
  const said = (['carried', 'derived', 'assumed', 'notCarried', 'missing', 'refused', 'cosmetic'] as const).filter(
    kind => count(kind) > 0,
  )
  return said.map(kind => `${count(kind)} ${countTitle(kind)}`).join(', ') || 'no keys'
}

function sentenceOf({ path, line, field, message, kind }: Note, { job }: Imported): string {
  const place = line === undefined ? '' : ` (line ${line})`
  const value = field === undefined || kind === 'missing' ? undefined : valueAt(job, field)
  const target = field === undefined || field === path ? '' : `${field}${value === undefined ? '' : ` ${value}`}`
  const subject = [`${path}${place}`, target].filter(part => part !== '').join(' -> ')
  return `${subject}${message === '' ? '' : `: ${message}`}`
}

function valueAt(job: unknown, field: string): string | undefined {
  const value = field.split('.').reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], job)
  return value === undefined
    ? undefined
    : shorten(typeof value === 'object' ? JSON.stringify(value) : String(value), 60)
}

/** A sentence below its title, with room for the mark of a comment before it; further lines are indented once more. */
const indented = (sentence: string): string[] => wrapped(sentence, sentenceColumns).map(line => `  ${line}`)

/** Of a screen of 100 columns. */
const sentenceColumns = 96
