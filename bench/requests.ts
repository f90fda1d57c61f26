/** What crosses to the threads of bench/rank.ts. */
import type { GroupToken } from '../src/engine/native/group/heap.js'

export const operations = ['all-reduce', 'all-gather', 'reduce-scatter', 'all-to-all', 'send-recv'] as const
export type Operation = (typeof operations)[number] | 'copy'

export interface Request {
  readonly operation: Operation
  /** Of one rank's operand; of all-gather's result. */
  readonly bytes: number
  /** 0: one run on known numbers, answered by the digest of the result. */
  readonly runs: number
}

export interface Assignment {
  readonly token: GroupToken
  readonly rank: number
}

/** At the start of a rank's heap, before operand and result: when each command of a list ran. */
export const spanWords = 3
export const mostSpans = 4096
export const spanBytes = mostSpans * spanWords * 8
export const line = 64

/** What a heap must hold for operands of so many bytes. */
export const heapBytes = (bytes: number): number => spanBytes + 2 * (bytes + line)
