/**
 * The configuration in a folder that a run of another framework has left: what the run itself has written down, resolved, before what it was
 * called with.
 */
import { relative } from 'node:path'
import { error, ProblemsError } from '../../base/index.js'
import { detect, type ForeignFramework, foreignNames } from '../../plan/index.js'
import type { Io } from '../io.js'

export interface FoundConfig {
  readonly path: string
  readonly text: string
  /** For people: what it is, and which others there are. */
  readonly note: string
}

/** Where frameworks write their resolved configuration, the surest first. */
const resolved: readonly (readonly [name: RegExp, framework: ForeignFramework])[] = [
  [/(^|\/)run_config\.ya?ml$/, 'bridge'], // in every checkpoint
  [/(^|\/)config\.ya?ml$/, 'nanotron'],
  [/(^|\/)(job_)?config(_\w+)?\.json$/, 'torchtitan'],
  [/(^|\/)hparams\.ya?ml$/, 'nemo'],
  [/\.(log|out|txt)$/, 'megatron'], // what rank 0 has printed
  [/\.(log|out|txt)$/, 'deepspeed'],
]
const readable = /\.(ya?ml|json|toml|log|out|txt|sh|slurm|sbatch|py)$/
/** Arguments stand at the beginning of a log. */
const mostBytes = 2 ** 20
const mostFiles = 500

/** Throws where there is none. */
export function configIn(folder: string, io: Io): FoundConfig {
  const names = (io.list(folder) ?? []).filter(path => readable.test(path)).slice(0, mostFiles)
  const known = names.flatMap(path => {
    const text = new TextDecoder().decode(io.readBytes(path, 0, mostBytes))
    const found = detect(text)
    return found ? [{ path, text, ...found, place: placeOf(path, found.framework) }] : []
  })
  const [first, ...others] = known.sort((a, b) => a.place - b.place || newer(a.path, b.path))
  if (!first) {
    const message = `no configuration that is known was found in ${folder}`
    throw new ProblemsError([error('file/unreadable', '', message, 'name the file itself')])
  }
  const rest =
    others.length > 0 ? `; ${others.length} more in the folder, such as ${relative(folder, others[0].path)}` : ''
  return { ...first, note: `${first.path}: a configuration of ${foreignNames[first.framework]}${rest}` }
}

function placeOf(path: string, framework: ForeignFramework): number {
  const at = resolved.findIndex(([name, of]) => of === framework && name.test(path))
  return at < 0 ? resolved.length : at
}

/** Of checkpoints the last: names that count steps up sort by number. */
const newer = (a: string, b: string): number => b.localeCompare(a, 'en', { numeric: true })
