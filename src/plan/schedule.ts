/** The names of the pipeline schedules. */
export const scheduleNames = [
  'gpipe',
  '1f1b',
  'looped-bfs',
  'interleaved',
  'interleaved-zb',
  'zb-h1',
  'zb-h2',
  'zb-v',
  'v-half',
  'v-min',
  'dualpipe-v',
  'dualpipe',
] as const
export type ScheduleName = (typeof scheduleNames)[number]

export interface ScheduleFacts {
  /**
   * Where stages live. On a loop stage s is on rank s mod pp; on a V the second half comes back up the ranks; fed from
   * both ends, a rank holds its stage and the mirrored one.
   */
  readonly placement: 'loop' | 'v' | 'both ends'
  /** Stages each rank holds: the default, and whether another number is possible. */
  readonly chunks: number
  readonly chunksFixed: boolean
  /**
   * Backward is one task; or always two, input gradient and weight gradient; or one that runs in a pair with a forward,
   * and two only at the ends of the step.
   */
  readonly backward: 'whole' | 'split' | 'paired'
  /** A chunk runs the forwards of all microbatches before any backward. */
  readonly forwardsFirst: boolean
}

const onLoop = { placement: 'loop', chunks: 1, chunksFixed: true, backward: 'whole', forwardsFirst: false } as const
const looped = { ...onLoop, chunks: 2, chunksFixed: false } as const
const onV = { ...onLoop, placement: 'v', chunks: 2, backward: 'split' } as const

export const scheduleFacts: Readonly<Record<ScheduleName, ScheduleFacts>> = {
  gpipe: { ...onLoop, forwardsFirst: true },
  '1f1b': onLoop,
  'looped-bfs': { ...looped, forwardsFirst: true },
  interleaved: looped,
  'interleaved-zb': { ...looped, backward: 'split' },
  'zb-h1': { ...onLoop, backward: 'split' },
  'zb-h2': { ...onLoop, backward: 'split' },
  'zb-v': onV,
  'v-half': onV,
  'v-min': onV,
  'dualpipe-v': { ...onV, backward: 'paired' },
  dualpipe: { ...onLoop, placement: 'both ends', backward: 'paired' },
}

export const isScheduleName = (name: string): name is ScheduleName => Object.hasOwn(scheduleFacts, name)
