/** What `benchCollectives` can time: collectives, send/recv, and memory copy as the upper bound. */
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
/** The name of a benchmarked collective. */
export type BenchOp = (typeof benchOps)[number]
