/** A launch script as a tree: what of the language of shells such scripts are written in is understood. */

export type Part =
  | { readonly kind: 'text'; readonly text: string; readonly quoted: boolean }
  | { readonly kind: 'param'; readonly param: Param; readonly quoted: boolean }
  | { readonly kind: 'command'; readonly text: string; readonly line: number; readonly quoted: boolean }
  | { readonly kind: 'arithmetic'; readonly of: Word; readonly quoted: boolean }

export type Word = readonly Part[]

/** `${NAME[index]op operand}`; `prefix` is the `#` of a length or the `!` of an indirection. */
export interface Param {
  readonly name: string
  readonly index?: Word
  readonly prefix?: '#' | '!'
  readonly op?: string
  readonly operand?: Word
  readonly line: number
}

export interface Assignment {
  readonly name: string
  readonly index?: Word
  readonly append: boolean
  /** An array, or one word. */
  readonly value: Word | { readonly elements: readonly Word[] }
}

export interface Redirect {
  readonly op: string
  readonly target: Word
  /** Of a heredoc: its text. */
  readonly body?: Word
}

/** An operand or an operator of `[[ ]]`. */
export type Term = { readonly operator: string } | { readonly word: Word }

export interface Arm {
  readonly patterns: readonly Word[]
  readonly body: Script
}

export type Command = { readonly line: number } & (
  | {
      readonly kind: 'simple'
      readonly assignments: readonly Assignment[]
      readonly words: readonly Word[]
      readonly redirects: readonly Redirect[]
    }
  | { readonly kind: 'test'; readonly terms: readonly Term[] }
  | { readonly kind: 'arithmetic'; readonly of: Word }
  | { readonly kind: 'if'; readonly branches: readonly { condition: Script; body: Script }[]; readonly rest?: Script }
  | { readonly kind: 'case'; readonly subject: Word; readonly arms: readonly Arm[] }
  | { readonly kind: 'for'; readonly name: string; readonly items?: readonly Word[]; readonly body: Script }
  | { readonly kind: 'count'; readonly parts: readonly Word[]; readonly body: Script }
  | { readonly kind: 'while'; readonly until: boolean; readonly condition: Script; readonly body: Script }
  | { readonly kind: 'group'; readonly body: Script }
  | { readonly kind: 'function'; readonly name: string; readonly body: Script }
  | { readonly kind: 'pipe'; readonly commands: readonly Command[]; readonly not: boolean }
  | { readonly kind: 'and' | 'or'; readonly left: Command; readonly right: Command }
)

export type Script = readonly Command[]

/** A line that is not understood, and what is meant by that. */
export interface Remark {
  readonly line: number
  readonly message: string
}
