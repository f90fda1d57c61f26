/** What the server and the process of a run tell each other. Steps and events are not among it: they are in the run folder. */
import { z } from 'zod'
import type { Problem, Spoken } from '../../base/index.js'
import type { StepView } from '../../calibrate/index.js'
import { kernelNames } from '../../engine/kernel-names.js'
import type { Peaks, RunNote } from '../../train/index.js'

/** What a page may ask for. */
export const RunRequest = z.strictObject({
  /** The text of the job. */
  job: z.string().min(1),
  /** The job file whose folder its data is sought from; without it, the working folder. */
  from: z.string().optional(),
  /** Texts that the job names: they are kept beside it, in the run folder, whose own names they cannot have. */
  files: z.record(z.string().regex(/^(?!metrics\.|flight)\w[\w-]{0,60}\.(txt|md|jsonl)$/), z.string()).optional(),
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
  | { readonly kind: 'view' }
  /** Writes it after this step: a trace as a file, or a checkpoint as a folder of its own. */
  | { readonly kind: 'keep'; readonly what: Kept; readonly to: string }

export type Kept = 'trace' | 'checkpoint'

export type FromRun =
  | { readonly kind: 'begun'; readonly facts: RunFacts }
  | { readonly kind: 'memory'; readonly memory: Peaks }
  | { readonly kind: 'note'; readonly note: RunNote }
  /** Undefined: nothing was measured. */
  | { readonly kind: 'view'; readonly view: StepView | undefined }
  /** `problem`: why it was not. */
  | { readonly kind: 'kept'; readonly to: string; readonly problem?: string }
  | { readonly kind: 'ended'; readonly code: number; readonly problems: readonly Problem[] }

/** What is known before the first step. */
export interface RunFacts {
  readonly ranks: number
  readonly steps: number
  readonly kernels: string
  readonly data: string
  /** Both as phrases, where they are. */
  readonly said?: { readonly kernels?: Spoken | undefined; readonly data?: Spoken | undefined }
  readonly plan: string
}
