/** Keys that name training data. A job takes its data from `data.source`, so an importer drops them and warns. */
import { isMapping } from '../plan/index.js'
import type { Imported, Note } from './note.js'

/** The last part of a path, with underscores: `--train-data-path` is train_data_path. */
const namesData =
  /^((train_)?data_paths?|data_args_path|per_split_data_args_path|train_data_exact|train_weighted_split_paths(_path)?|data_prefix|blend(_per_split)?|data_stages|dataset(_path|_name)?)$/

const isDataKey = (path: string): boolean => {
  const parts = path.replace(/^--/, '').replaceAll('-', '_').split('.')
  return (
    namesData.test(parts.at(-1) ?? '') || (parts[0] === 'data' && parts[1] === 'paths') || parts[0] === 'data_stages'
  )
}

export const trainsOnSynthetic = ({ job }: Imported): boolean =>
  job !== undefined && !(isMapping(job.data) && job.data.source !== undefined)

export const syntheticNote = 'the job trains on synthetic data until data.source is set'

/** With the keys that name training data reported as dropped, whatever the reader said of them. */
export function withDataDropped(imported: Imported): Imported {
  if (!trainsOnSynthetic(imported)) return imported
  const reported = (note: Note): Note =>
    (note.kind === 'cosmetic' || note.kind === 'notCarried') && isDataKey(note.path)
      ? { ...note, kind: 'notCarried', message: `training data is not imported: ${syntheticNote}` }
      : note
  return { ...imported, notes: imported.notes.map(reported) }
}
