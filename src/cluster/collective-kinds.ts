/** What ranks do together; `send` is one message. */
export const collectiveKinds = [
  'all-reduce',
  'all-gather',
  'reduce-scatter',
  'all-to-all',
  'broadcast',
  'send',
  'reduce',
  'gather',
  'scatter',
] as const
export type CollectiveKind = (typeof collectiveKinds)[number]
