/** What the server and the process of a run tell each other. Steps and events are not among it: they are in the run folder. */
import { z } from 'zod'
import type { Problem } from '../../base/index.js'
import { kernelNames } from '../../engine/kernel-names.js'
import type { Kind } from '../../ir/index.js'
import type { CollectiveSum } from '../../trace/index.js'

/** What a page may ask for. */
export const RunRequest = z.strictObject({
  /** The text of the job. */
  job: z.string().min(1),
  /** The job file whose folder its data is sought from; without it, the working folder. */
  from: z.string().optional(),
  steps: z.int().min(1).optional(),
  kernels: z.enum(['auto', ...kernelNames]).optional(),
  /** After a failure, go on from the newest good state. */
  keepGoing: z.boolean().optional(),
  /** Seconds that a rank may wait for another. */
  timeout: z.number().min(1).optional(),
  /** A prompt that the model goes on from at each evaluation. */
  sample: z.string().max(1000).optional(),
  /** Whether a checkpoint is written when it ends. */
  save: z.boolean().optional(),
})
export type RunRequest = z.infer<typeof RunRequest>

export type ToRun =
  | { readonly kind: 'begin'; readonly request: RunRequest; readonly place: string }
  | { readonly kind: 'stop' }
  /** In the words of --fault, but for the step: it is the next. */
  | { readonly kind: 'fault'; readonly text: string }
  | { readonly kind: 'spans' }

export type FromRun =
  | { readonly kind: 'begun'; readonly facts: RunFacts }
  | { readonly kind: 'memory'; readonly memory: MemoryFacts }
  | { readonly kind: 'note'; readonly text: string }
  | { readonly kind: 'spans'; readonly spans: PackedSpans }
  | { readonly kind: 'ended'; readonly code: number; readonly problems: readonly Problem[] }

/** What is known before the first step. */
export interface RunFacts {
  readonly ranks: number
  readonly steps: number
  readonly kernels: string
  readonly data: string
  readonly plan: string
}

/** Peaks by rank. */
export interface MemoryFacts {
  readonly planned: readonly Readonly<Record<Kind, number>>[]
  readonly measured: readonly Readonly<Record<Kind, number>>[]
  /** To the byte, on every rank. */
  readonly asPlanned: boolean
}

/** The last step, column by column: a head that says how long they are, and their bytes. */
export interface PackedSpans {
  readonly head: SpansHead
  readonly columns: Uint8Array
}

export interface SpansHead {
  readonly step: number
  readonly ranks: number
  readonly count: number
  /** Seconds from the first start to the last end. */
  readonly seconds: number
  /** What `lane` and `name` index. */
  readonly lanes: readonly string[]
  readonly names: readonly string[]
  readonly collectives: readonly CollectiveSum[]
  /** In the order they lie in, each padded to 8 bytes; start and end in seconds from the first. */
  readonly columns: readonly { readonly name: string; readonly type: 'f64' | 'i32' | 'u8' }[]
}
