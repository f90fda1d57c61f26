/**
 * What is said, as data: a code, and the values its words are made with. The English stands in a total table beside the union of codes,
 * so that a program prints it and a page may say the same in a language of its own.
 */

/** A message code with its values. */
export type Said<Values> = {
  readonly [Code in keyof Values]: { readonly code: Code; readonly values: Values[Code] }
}[keyof Values]

/** The template of each code: a code without one is a type error. */
export type Wording<Values> = { readonly [Code in keyof Values]: (values: Values[Code]) => string }

export function sayIn<Values>(words: Wording<Values>, { code, values }: Said<Values>): string {
  const word: (values: Values[keyof Values]) => string = words[code] // the code is that of the values
  return word(values)
}

/** What needs no values. */
export type Nothing = Readonly<Record<string, never>>
