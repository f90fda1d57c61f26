/** Problems in the words of phrases: the name of a phrase begins with the code of its problem, and one with a dot stands within others. */
import { english, type Filling, type Gap, type Phrase, type Phrases, type Spoken, speak, spoken } from './phrase.js'
import type { Problem } from './problem.js'
import type { ProblemCode } from './problem-code.js'

export type ProblemPhrases = Readonly<Partial<Record<ProblemCode | `${ProblemCode}/${string}` | `.${string}`, Phrase>>>

type Clause = `.${string}`
type WholeIn<Table> = Exclude<keyof Table, Clause> & string
type ClauseIn<Table> = Extract<keyof Table, Clause>
type FillingOf<Table, Name extends keyof Table> = Table[Name] extends Phrase ? Filling<Table[Name]> : never

/** A problem that says a phrase of a table; advice that comes to nothing is none. */
export function problemSaid(severity: Problem['severity'], path: string, said: Spoken, phrases: Phrases): Problem {
  const [message, suggestion] = speak(said, english(phrases))
  const code = said.phrase.split('/').slice(0, 2).join('/') as ProblemCode // which the name of a phrase begins with
  return { severity, code, path, message, ...(suggestion !== '' && { suggestion }), ...said }
}

/** Functions that make diagnostics from a table of message templates. */
export function phrasing<const Table extends ProblemPhrases>(table: Table) {
  const said =
    (severity: Problem['severity']) =>
    <Name extends WholeIn<Table>>(path: string, phrase: Name, ...filling: FillingOf<Table, Name>): Problem =>
      problemSaid(severity, path, spoken(phrase, filling), table as Phrases) // every key has a phrase
  return {
    refused: said('error'),
    advised: said('warning'),
    /** A nested message, translated with the message around it. */
    clause: <Name extends ClauseIn<Table>>(phrase: Name, ...filling: FillingOf<Table, Name>): Spoken =>
      spoken(phrase, filling),
  }
}

/** A problem that is said within another: what is so, and what to do about it. */
export const saidAgain = ({
  phrase,
  values = {},
  message,
  suggestion = '',
}: Problem): { readonly what: string | Spoken; readonly instead: Gap } =>
  phrase === undefined
    ? { what: message, instead: suggestion }
    : { what: { phrase, values }, instead: { advice: { phrase, values } } }
