/** Parse errors of the program text, in English. The first one is thrown; the parser adds its line. */
import {
  type Filling,
  namePhrases,
  nearest,
  type Problem,
  type ProblemPhrases,
  phrasing,
  type Spoken,
} from '../../base/index.js'

export const textPhrases = {
  ...namePhrases,
  'program/text/json': ['{why}'],
  'program/text/open': ['{found} is never closed'],
  'program/text/no-name': ['a name is missing'],
  'program/text/name': ["'{found}' is not a name"],
  'program/text/reserved': ["'{found}' cannot be a name"],
  'program/text/no-number': ['a number is missing'],
  'program/text/number': ["'{found}' is not a number"],
  'program/text/index': ["'{found}' is not an index"],
  'program/text/count': ["'{found}' is not an integer of at least 0"],
  'program/text/flag': ["'{found}' is neither true nor false"],
  'program/text/no-word': ['expected one of {words}'],
  'program/text/word': ["'{found}' is none of {words}"],
  'program/text/axis': ["'{found}' is not an axis"],
  'program/text/numbers': ["'{found}' does not have the {numbers} numbers of {kind}"],
  'program/text/more': ["unexpected word '{found}'"],
  'program/text/dims': ["expected dims such as [batch:2/dp], found '{found}'"],
  'program/text/dim': ['{found} has neither a size nor a split'],
  'program/text/turns': ['{found} is rotated twice'],
  'program/text/zigzag': ['expected a dim and an axis, as in seq/cp'],
  'program/text/documents': ['expected documents or the end of the line, found {found}'],
  'program/text/segment': ['segment {segment} is written twice'],
  'program/text/stream': ['expected stream {stream}, found {found}'],
  'program/text/held': ['stream {stream} holds {param} twice'],
  'program/text/split': ['{dim} cannot be split here'],
  'program/text/buffer': ['%{ref} is declared twice'],
  'program/text/offset': ["expected an offset such as @stash+128, found '{found}'"],
  'program/text/frame': ['expected frame {frame}, found {found}'],
  'program/text/place': ['expected an offset such as @128'],
  'program/text/ref': ["expected a buffer such as %x, found '{found}'"],
  'program/text/wait': ['wait: expected a buffer'],
  'program/text/in': ['{kind}: expected an operand'],
  'program/text/out': ['{kind}: expected a result'],
  'program/text/needs': ['{kind} needs {attributes}'],
  'program/text/pair': ["expected key=value, found '{found}'"],
  'program/text/twice': ['a key is set twice: {keys}'],
  'program/text/missing': ['{key}= is missing'],
  'program/text/unknown-line': ["unknown line '{found}'", '{instead}'],
  'program/text/unknown-role': ["unknown role '{found}'", '{instead}'],
  'program/text/unknown-instruction': ["unknown instruction '{found}'", '{instead}'],
  'program/text/unknown-attribute': ["unknown attribute of {kind} '{found}'", '{instead}'],
  'program/text/unknown-key': ["unknown key '{found}'", '{instead}'],
} as const satisfies ProblemPhrases

const { refused, clause } = phrasing(textPhrases)

/** The message templates of errors in the text form of a program, for a UI that translates them. */
export type TextPhrases = typeof textPhrases
type Said = Exclude<keyof TextPhrases, `.${string}`>

/** Thrown by a codec. */
export class Unreadable extends Error {
  readonly problem: Problem
  constructor(problem: Problem) {
    super(problem.message)
    this.problem = problem
  }
}

export function unreadable<Name extends Said>(phrase: Name, ...filling: Filling<TextPhrases[Name]>): never {
  throw new Unreadable(refused('', phrase, ...(filling as never))) // as the phrase asks for it
}

/** The name that was probably meant. */
export function near(found: string, known: readonly string[]): Spoken | '' {
  const word = nearest(found, known)
  return word === undefined ? '' : clause('.meant', { word: `'${word}'` })
}

export const notJson = ({ message }: SyntaxError): Problem => refused('', 'program/text/json', { why: message })
