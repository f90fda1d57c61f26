/** A law that a program breaks, or why a text is no program, for pages. */
import type { Spoken, Violation } from 'lockstep'

export interface Broken {
  /** Undefined: the text is no program. */
  readonly law?: Violation['law']
  readonly title: string
  readonly message: string
  /** The phrase that the message is. */
  readonly said?: Spoken
  /** Of the program's text, from 1; undefined: it belongs to no one line. */
  readonly line?: number
}

export const named = ({ law, title, message, ...said }: Violation): Broken => ({
  ...{ law, title, message },
  ...saidIn(said),
})

/** What is said in a phrase, where it is. */
export const saidIn = ({ phrase, values = {} }: Partial<Spoken>): Pick<Broken, 'said'> =>
  phrase === undefined ? {} : { said: { phrase, values } }
