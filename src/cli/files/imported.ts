/** A configuration of another framework where a job is expected: its job, with a line on what became of the keys. */
import { stringify } from 'yaml'
import { type Imported, importConfig, type NoteKind, problemOfRefusal } from '../../interop/index.js'
import { foreignNames, isMapping, type ParsedJob, parseJob } from '../../plan/index.js'
import type { Io } from '../io.js'
import { readBeside } from './beside.js'

/** Rows of the embedding table where only a tokenizer knows: those of GPT-2, filled up. */
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
  io.err(`${path}: ${summaryOf(imported)}${open ? `; vocab ${usualVocab} is assumed` : ''}\n`)
  return parseJob(stringify(open ? { ...job, model: { ...model, vocab: usualVocab } } : job))
}

function summaryOf({ framework, notes }: Imported): string {
  const count = (...kinds: readonly NoteKind[]) =>
    new Set(notes.filter(({ kind }) => kinds.includes(kind)).map(({ path }) => path)).size
  const taken = `${count('carried', 'derived')} keys taken over, ${count('assumed')} defaults, ${count('notCarried')} not carried`
  return `a configuration of ${foreignNames[framework]}: ${taken} (lockstep import lists them)`
}
