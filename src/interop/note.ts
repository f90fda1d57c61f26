/** What became of a configuration of another framework: a job, as far as it goes, and a note on every key. */
import type { Problem } from '../base/index.js'
import type { Foreign, ForeignFormat, ForeignFramework } from '../plan/index.js'

export const noteKinds = ['carried', 'derived', 'assumed', 'notCarried', 'missing', 'refused', 'cosmetic'] as const
export type NoteKind = (typeof noteKinds)[number]

export interface Note {
  readonly kind: NoteKind
  /** The key as it is written there; of what is missing, the field of the job. */
  readonly path: string
  readonly line?: number
  /** The field of the job that it became. */
  readonly field?: string
  /** Derived: with the equation. Assumed: with the release whose default it is. Empty: there is nothing to say. */
  readonly message: string
}

/** Settings given in addition to the file, such as the sequence length. */
export interface Given {
  /** Number of ranks, if the file does not specify it. */
  readonly world?: number
  /** Tokens of a sequence, if the file does not specify them. */
  readonly seq?: number
  /** Positional arguments of a script, or command-line options that override a file. */
  readonly args?: readonly string[]
  /** Environment variables of a script. */
  readonly env?: Readonly<Record<string, string>>
  /** Variables of a script, which override its own; arguments of a function of a Python file. */
  readonly set?: Readonly<Record<string, string>>
  /** Arguments of the Hugging Face Trainer, for which `auto` stands. */
  readonly trainer?: Readonly<Record<string, unknown>>
  /** A preset, or a Hugging Face configuration. */
  readonly model?: string | Readonly<Record<string, unknown>>
  /** The release whose defaults apply; by default the newest that has all the flags. */
  readonly release?: string
  /** Of a Python file: the function that returns the configuration. */
  readonly function?: string
  /** The text of a file that the configuration names; undefined: there is none. */
  readonly read?: (path: string) => string | undefined
}

/** A job as it would be written in a file; whatever the configuration does not say is left out. */
export type JobDraft = Readonly<Record<string, unknown>>

/** A job read from another framework's configuration, with a note on every key. */
export interface Imported extends Foreign {
  /** Absent if a note is `refused`. */
  readonly job?: JobDraft
  readonly world?: number
  readonly notes: readonly Note[]
  /** Diagnostics of `check`, if the job is complete enough. */
  readonly problems?: readonly Problem[]
}

/** Reads the text of one framework. Never throws, executes nothing, opens no file but through `given.read`. */
export type Reader = (text: string, given: Given, format: ForeignFormat) => Imported

export type Readers = Readonly<Partial<Record<ForeignFramework, Reader>>>
