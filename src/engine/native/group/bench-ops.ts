/** What can be timed: the collectives, messages, and the copy that is their limit. */
export const benchOps = [
  'copy',
  'all-reduce',
  'all-gather',
  'reduce-scatter',
  'all-to-all',
  'broadcast',
  'reduce',
  'gather',
  'scatter',
  'send-recv',
] as const
export type BenchOp = (typeof benchOps)[number]
