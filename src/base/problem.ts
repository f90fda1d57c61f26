/** What is wrong with an input, as data: the CLI prints it, a machine reads it, a page underlines the path. */
import type { Spoken } from './phrase.js'
import type { ProblemCode } from './problem-code.js'
import type { ProblemValues } from './problem-values.js'
import type { Said } from './said.js'

export interface Problem {
  readonly severity: 'error' | 'warning'
  /** Stable and greppable: 'plan/indivisible'. */
  readonly code: ProblemCode
  /** Where: 'plan.tp'. Empty: the file as a whole. */
  readonly path: string
  /** What, with the equation. */
  readonly message: string
  /** What to try instead. */
  readonly suggestion?: string
  /** The phrase that message and suggestion are, where it has one of its own beside its code. */
  readonly phrase?: string
  /** Numbers and names of the message, so that a page may say it in its own language. */
  readonly values?: ProblemValues[keyof ProblemValues] | Spoken['values']
  readonly line?: number
  readonly column?: number
}

/** Of a code, or of one with the values of its message. */
export const error = (
  said: ProblemCode | Said<ProblemValues>,
  path: string,
  message: string,
  suggestion?: string,
): Problem => ({
  severity: 'error',
  ...(typeof said === 'string' ? { code: said } : said),
  path,
  message,
  ...(suggestion && { suggestion }),
})

export const warning = (
  said: ProblemCode | Said<ProblemValues>,
  path: string,
  message: string,
  suggestion?: string,
): Problem => ({
  ...error(said, path, message, suggestion),
  severity: 'warning',
})

export const hasErrors = (problems: readonly Problem[]): boolean => problems.some(p => p.severity === 'error')

/** Thrown at the rim for problems found where a value was expected. */
export class ProblemsError extends Error {
  readonly problems: readonly Problem[]
  /** The file they are in, where it is not the one that everybody talks of. */
  readonly file?: string
  constructor(problems: readonly Problem[], file?: string) {
    super(problems.map(showProblem).join('\n'))
    this.problems = problems
    if (file !== undefined) this.file = file
  }
}

export function showProblem(p: Problem): string {
  const place = p.line === undefined ? '' : `${p.line}:${p.column ?? 1} `
  const path = p.path === '' ? '' : `${p.path}: `
  return `${p.severity} ${place}${path}${p.message}${p.suggestion ? `; ${p.suggestion}` : ''} [${p.code}]`
}
