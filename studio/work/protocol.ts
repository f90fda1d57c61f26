/** Messages between a page and its workers. */
import type { Problem } from 'lockstep'

export interface Question {
  readonly id: number
  readonly module: string
  readonly name: string
  readonly input: unknown
}

/** Why there is no answer: what is wrong with the input, or a sentence. */
export interface Refusal {
  readonly message: string
  readonly problems: readonly Problem[]
}

export type Reply =
  /** Messages sent before a worker's modules are evaluated would be lost: it says when it listens. */
  | { readonly type: 'ready' }
  | { readonly type: 'progress'; readonly id: number; readonly value: unknown }
  | { readonly type: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly type: 'refused'; readonly id: number; readonly why: Refusal }
