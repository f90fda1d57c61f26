/** A config of another framework in place of a job: its job, and one line that counts mapped, defaulted and dropped keys. */
import { stringify } from 'yaml'
import { wrapped } from '../../base/index.js'
import { type Imported, importConfig, type NoteKind, problemOfRefusal } from '../../interop/index.js'
import { foreignNames, isMapping, type ParsedJob, parseJob } from '../../plan/index.js'
import type { Io } from '../io.js'
import { readBeside } from './beside.js'

/** The vocabulary size where only the tokenizer knows it: GPT-2's, padded. */
const usualVocab = 51200

interface Source {
  readonly path: string
  readonly devices: number | undefined
  readonly set?: Readonly<Record<string, string>> | undefined
}

export function importedJob(text: string, { path, devices, set }: Source, io: Io): ParsedJob {
  const imported = importConfig(text, {
    read: readBeside(path, io),
    ...(devices !== undefined && { world: devices }),
    ...(set && { set }),
  })
  const { job } = imported
  if (!job) return { problems: problemOfRefusal(imported), locate: problem => problem }
  const { model } = job
  const open = isMapping(model) && model.vocab === undefined
  const summary = `${path}: ${summaryOf(imported)}${open ? `; vocab defaults to ${usualVocab}` : ''}`
  io.err(`${wrapped(summary).join('\n')}\n`)
  return parseJob(stringify(open ? { ...job, model: { ...model, vocab: usualVocab } } : job))
}

function summaryOf({ framework, notes }: Imported): string {
  const count = (...kinds: readonly NoteKind[]) =>
    new Set(notes.filter(({ kind }) => kinds.includes(kind)).map(({ path }) => path)).size
  const taken = `${count('carried', 'derived')} keys mapped, ${count('assumed')} defaulted, ${count('notCarried')} dropped`
  return `${foreignNames[framework]} config: ${taken} (lockstep import lists them)`
}
