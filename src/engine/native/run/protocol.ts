/**
 * What crosses threads. A rank's thread is told once where everything lies; from then on a step is asked for by one word
 * of shared memory and done by one call of exec. Only what main must be woken for is a message.
 */
import type { Kernels, SharedMemory, Tuning } from '../kernels/kernels.js'
import type { Notes } from '../lower/notes.js'
import type { Deed } from './deeds.js'
import type { Drawing } from './draw.js'
import type { Sight } from './look.js'

/** To a rank, or to a copier, whose number follows those of the ranks. */
export interface Assignment {
  readonly kernels: Kernels['kind']
  readonly tuning: Tuning
  readonly memory: SharedMemory
  readonly rank: number
  /** How many share the cores; undefined: it is not bound to any. */
  readonly ranks: number | undefined
  /** Byte offsets: the words main and ranks share, the rank's list and status block. */
  readonly control: number
  readonly list: number
  readonly status: number
  /** Where the rank runs a command at a time, and what faults may happen to it; a rank without faults has none. */
  readonly hand?: number | undefined
  readonly deeds?: readonly Deed[] | undefined
  /** Of a thread that looks at every result of its rank: what its commands write, and how many there are. */
  readonly looks?: { readonly notes: Notes; readonly commands: number } | undefined
  /** The initial weights, of which every rank draws a share before the first step; copiers and a group of collectives have none. */
  readonly drawing?: Drawing | undefined
}

export type ToRank = { readonly type: 'load'; readonly assignment: Assignment }

export type FromRank =
  /** So much of its share of the initial weights is drawn. */
  | { readonly type: 'drawing'; readonly rank: number; readonly share: number }
  /** The kernels are loaded, its share is drawn, and the rank waits for the first step. */
  | { readonly type: 'ready' }
  /** This was the last rank to finish the step. */
  | { readonly type: 'stepped' }
  /** What a thread that looks saw in the step. */
  | { readonly type: 'looked'; readonly rank: number; readonly sight: Sight }
  /** exec gave an error, or threw. */
  | { readonly type: 'failed'; readonly rank: number; readonly message: string }
  /** Told to stop; it can be given another assignment. */
  | { readonly type: 'left' }
