/** lockstep import: a configuration of another framework as a job. */
import { stringify } from 'yaml'
import { error, hasErrors, ProblemsError, save } from '../../base/index.js'
import {
  type Given,
  type Imported,
  importConfig,
  importReport,
  problemOfRefusal,
  problemsOfNotes,
} from '../../interop/index.js'
import { isPreset } from '../../model/index.js'
import type { ForeignFramework } from '../../plan/index.js'
import { readBeside } from '../files/beside.js'
import { configIn } from '../files/foreign-folder.js'
import { requireOutputs } from '../files/outputs.js'
import type { Io } from '../io.js'
import { showProblems } from '../text/problems.js'
import { splitAt } from '../text/usage.js'

export interface ImportOptions {
  readonly from?: ForeignFramework
  readonly devices?: number
  readonly model?: string
  readonly seq?: number
  readonly trainer: Readonly<Record<string, string>>
  readonly arg: readonly string[]
  readonly set: Readonly<Record<string, string>>
  readonly env: Readonly<Record<string, string>>
  readonly function?: string
  readonly release?: string
  readonly out?: string
  readonly json?: boolean
}

export async function importCommand(asked: string, options: ImportOptions, io: Io): Promise<number> {
  requireOutputs(io, options.out)
  const { path, text } = sourceOf(asked, io)
  const imported = importConfig(text, givenBy(path, options, io), options.from)
  const { job, world, problems = [] } = imported
  if (options.json)
    io.out(`${JSON.stringify({ ...(job && { job, world }), problems: problemsOfNotes(imported) }, null, 2)}\n`)
  else if (!job) io.err(showProblems(problemOfRefusal(imported), io, path))
  else show(imported, options, io)
  if (job && options.out !== undefined) save(options.out, stringify(job), io)
  return job && !hasErrors(problems) ? 0 : 1
}

/** Without --out the job goes to standard output, with the report behind #: the whole is a job file. */
function show(imported: Imported, { out }: ImportOptions, io: Io): void {
  const report = importReport(imported)
  if (out !== undefined) io.out(`${report}\nwritten to ${out}\n`)
  else
    io.out(
      `${report
        .replace(/^(?=.)/gm, '# ')
        .replace(/^$/gm, '#')
        .replace(/#$/, '')}${stringify(imported.job)}`,
    )
}

/** A folder is one that a run has left: the configuration in it is named. */
function sourceOf(path: string, io: Io): { readonly path: string; readonly text: string } {
  if (path === '-' || io.kindOf(path) !== 'folder') return { path, text: textOf(path, io) }
  const found = configIn(path, io)
  io.err(`${found.note}\n`)
  return found
}

function textOf(path: string, io: Io): string {
  try {
    return io.read(path)
  } catch (e) {
    const message = e instanceof Error ? e.message : String(e)
    throw new ProblemsError([error('file/unreadable', '', `cannot read ${path}: ${message}`)])
  }
}

function givenBy(path: string, options: ImportOptions, io: Io): Given {
  const { devices, model, seq, trainer, set } = options
  const { arg, env } = withVariables(options)
  return {
    ...(devices !== undefined && { world: devices }),
    ...(seq !== undefined && { seq }),
    ...(model !== undefined && { model: isPreset(model) ? model : configOf(model, io) }),
    ...(options.function !== undefined && { function: options.function }),
    ...(options.release !== undefined && { release: options.release }),
    ...{ trainer, args: arg, set, env },
    read: readBeside(path, io),
  }
}

/** `LAYERS=12` is a variable of the environment wherever it stands on the line, as with `make`. */
function withVariables({ arg, env }: Pick<ImportOptions, 'arg' | 'env'>): Pick<ImportOptions, 'arg' | 'env'> {
  const isVariable = (word: string) => /^[A-Z_][A-Z0-9_]*=/.test(word)
  const variables = arg.filter(isVariable).map(word => splitAt(word, '='))
  return { arg: arg.filter(word => !isVariable(word)), env: { ...env, ...Object.fromEntries(variables) } }
}

function configOf(path: string, io: Io): Readonly<Record<string, unknown>> {
  const refuse = (message: string): never => {
    throw new ProblemsError([error('model/file', '--model', `${path}: ${message}`, 'lockstep models lists them')])
  }
  try {
    const value: unknown = JSON.parse(io.read(path))
    if (typeof value !== 'object' || value === null) return refuse('expected a mapping')
    return value as Readonly<Record<string, unknown>> // just looked at
  } catch (e) {
    if (e instanceof ProblemsError) throw e
    return refuse(e instanceof Error ? e.message.split('\n')[0] : String(e))
  }
}
