/** A job as files of another framework, and what those cannot say. */
import type { ForeignFramework, Job } from '../../plan/index.js'
import type { Given } from '../note.js'
import type { KeysOf, RecipeField } from './unset.js'

export interface Written {
  /** The configuration first. */
  readonly files: ReadonlyMap<string, string>
  /** What an importer must be told beside the first file to read it as it is meant. */
  readonly given: Given
  /** Keys of recipe fields in the files. */
  readonly keys: KeysOf
  /** What the files state although no job can. */
  readonly fixed?: readonly Unsaid[]
}

/** What cannot be said, and where in the job it stands. */
export interface Unsaid {
  readonly path: string
  readonly message: string
}

/** Adds to the list: all reasons are said at once. */
export type Refuse = (path: string, message: string) => void

/** `unset`: recipe fields that the job leaves out, and the file therefore too. */
export type Writer = (job: Job, refuse: Refuse, unset: readonly RecipeField[]) => Written

export type Writers = Readonly<Partial<Record<ForeignFramework, Writer>>>

export const worldOf = ({ plan }: Job): number => plan.dp * plan.tp * plan.pp * plan.cp
export const microbatchOf = ({ plan, training }: Job): number => training.globalBatch / (plan.dp * plan.microbatches)

export const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`

/** Sections of scalars and lists. */
export function toml(sections: Readonly<Record<string, Readonly<Record<string, unknown>>>>): string {
  const shown = (value: unknown): string => (value === Number.POSITIVE_INFINITY ? 'inf' : JSON.stringify(value))
  return Object.entries(sections)
    .map(([name, fields]) =>
      [
        `[${name}]`,
        ...Object.entries(fields)
          .filter(([, value]) => value !== undefined)
          .map(([key, value]) => `${key} = ${shown(value)}`),
        '',
      ].join('\n'),
    )
    .join('\n')
}
