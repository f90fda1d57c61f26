/** What the messages of the most common problems are made of. Of one code all values are of one kind; a message that says something else has none. */

/** Something of so many that cannot be cut in so many ways. */
interface Indivisible {
  readonly what: string
  readonly size: number
  readonly ways: number
}

export interface ProblemValues {
  'schema/key': { readonly key: string }
  'schema/name': { readonly field: string; readonly word: string }
  /** `is`: what the number must be, against the limit. */
  'schema/range': { readonly is: '>=' | '>' | '<=' | '<'; readonly limit: number; readonly got: string }
  'model/preset': { readonly name: string }
  'model/heads': Indivisible & { readonly by: string }
  'model/positions': { readonly seq: number; readonly positions: number }
  'plan/ranks': { readonly ranks: number; readonly most: number }
  'plan/unsupported': { readonly axis: string; readonly size: number }
  /** The batch is shared by so many copies, in so many microbatches each. */
  'plan/batch': { readonly globalBatch: number; readonly microbatches: number; readonly copies: number }
  'plan/indivisible': Indivisible
  'plan/stages': { readonly stages: number; readonly layers: number }
  'plan/uneven': { readonly stages: number; readonly layers: number }
  'plan/size': { readonly tasks: number; readonly most: number }
  /** Bytes that a rank needs at least, and those that a device has. */
  'plan/memory': { readonly bytes: number; readonly room: number }
  /** `share`: of the step. */
  'plan/bubble': { readonly microbatches: number; readonly pp: number; readonly share: number }
}
