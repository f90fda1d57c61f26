/** Problems on a terminal: one line each, with file, line and column, as editors understand them. */
import { counted, type Problem, printable } from '../../base/index.js'
import type { Io } from '../io.js'
import { colorsOf } from './colors.js'

export function showProblems(problems: readonly Problem[], io: Io, file?: string): string {
  const { red, yellow, bold, dim } = colorsOf(io)
  const line = (p: Problem) => {
    const place = [file && printable(file), p.line, p.line === undefined ? undefined : (p.column ?? 1)].filter(
      part => part !== undefined,
    )
    const severity = p.severity === 'error' ? red('error') : yellow('warning')
    const what = `${p.path === '' ? '' : `${bold(printable(p.path))}: `}${p.message}${p.suggestion ? `; ${p.suggestion}` : ''}`
    return `${place.length > 0 ? `${place.join(':')}: ` : ''}${severity}: ${what} ${dim(`[${p.code}]`)}\n`
  }
  return problems.map(line).join('')
}

/** The same for machines, on one line, so that it can follow lines of JSON. */
export const problemsJson = (problems: readonly Problem[], file?: string): string =>
  `${JSON.stringify({ ok: false, ...(file && { file }), problems })}\n`

/** '2 errors, 1 warning' */
export function countProblems(problems: readonly Problem[]): string {
  const count = (severity: Problem['severity']) => problems.filter(p => p.severity === severity).length
  const words = (['error', 'warning'] as const).filter(s => count(s) > 0).map(s => counted(count(s), s))
  return words.join(', ') || 'no problems'
}
