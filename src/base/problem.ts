/** What is wrong with an input, as data: the CLI prints it, a machine reads it, a page underlines the path. */
import type { Spoken } from './phrase.js'
import type { ProblemCode } from './problem-code.js'

/** A diagnostic: what is wrong, where, and what to try instead. */
export interface Problem {
  readonly severity: 'error' | 'warning'
  /** Stable and greppable: 'plan/indivisible'. */
  readonly code: ProblemCode
  /** The field: 'plan.tp'. Empty: the entire file. */
  readonly path: string
  /** What, with the equation. */
  readonly message: string
  /** What to try instead. */
  readonly suggestion?: string
  /** The template of message and suggestion, with its values, for translation. */
  readonly phrase?: string
  readonly values?: Spoken['values']
  readonly line?: number
  readonly column?: number
}

/** What only a terminal shows, in its own words; what pages show too is a phrase (`phrasing`). */
export const error = (code: ProblemCode, path: string, message: string, suggestion?: string): Problem => ({
  ...{ severity: 'error', code, path, message },
  ...(suggestion && { suggestion }),
})

export const warning = (code: ProblemCode, path: string, message: string, suggestion?: string): Problem => ({
  ...error(code, path, message, suggestion),
  severity: 'warning',
})

export const hasErrors = (problems: readonly Problem[]): boolean => problems.some(p => p.severity === 'error')

/** The error that holds diagnostics. Thrown where a function cannot return them. */
export class ProblemsError extends Error {
  readonly problems: readonly Problem[]
  /** The file they are in, if it is not the one that was read. */
  readonly file?: string
  constructor(problems: readonly Problem[], file?: string) {
    super(problems.map(showProblem).join('\n'))
    this.problems = problems
    if (file !== undefined) this.file = file
  }
}

/** One diagnostic as text: severity, code, place, message and suggestion. */
export function showProblem(p: Problem): string {
  const place = p.line === undefined ? '' : `${p.line}:${p.column ?? 1} `
  const path = p.path === '' ? '' : `${p.path}: `
  return `${p.severity} ${place}${path}${p.message}${p.suggestion ? `; ${p.suggestion}` : ''} [${p.code}]`
}
