/** What a run is beside its program: everything the runtime must be told that no rank computes. */

export interface Run {
  /** What to call it. Whoever wrote the job chose it: it is text, never code. */
  readonly title: string
  readonly seed: number
  readonly steps: number
  readonly globalBatch: number
  /** Before that: so many sequences a step, until so many were seen. Their programs lie in folders of their own. */
  readonly batchRamp?: readonly { readonly globalBatch: number; readonly until: number }[]
  /** Steps before this one send gradients as they are, by programs of their own. */
  readonly compressFrom?: number
  readonly seq: number
  readonly learningRate: LearningRate
  /** What the gradient norm of a step that is taken is below, where there is a limit; so many skipped in a row end the run. */
  readonly skipAbove?: number
  /** Whether steps that are spikes are skipped. */
  readonly spikes?: 'note' | 'skip'
  readonly mostSkips: number
  /** The loss scale at which an overflow ends the run, where there is one. */
  readonly leastScale?: number
  readonly data: RunData
  /** What ends a document, and whether its last token predicts what follows, where a sequence holds several. */
  readonly documents?: { readonly eod: number; readonly eodMaskLoss: boolean; readonly pad: number }
  /** The file of choices that experts repeat. */
  readonly choices?: string
  /** Dead-unit detection (runtime/dead_units.py), where the optimizer state allows it. */
  readonly units?: {
    readonly every: number
    readonly looks: number
    readonly share: number
    readonly tolerance: number
    readonly dims: readonly string[]
    readonly shrinks: number
  }
  /** A hash of the data: it tells what a checkpoint was trained on from anything else. */
  readonly fingerprint: string
  /** Global batches of held-out samples after every so many steps (0: none of these) and after the last; absent: never. */
  readonly evaluation?: { readonly every: number; readonly batches: number }
  /** The job, as JSON, the tokenizer.json its text was encoded with, and what else says how the model is used: checkpoints carry all. */
  readonly job: unknown
  readonly tokenizer?: string
  readonly texts?: Readonly<Record<string, string>>
  /** For the FLOP/s of the metrics. */
  readonly flopsPerToken: number
  /** What a simulation said, where there was one: about.json has it as its prediction. */
  readonly expected?: { readonly cluster: string; readonly seconds: number }
}

/** As in a job: runtime/trainer.py knows what it means. */
export interface LearningRate {
  readonly lr: number
  readonly kind: 'constant' | 'linear' | 'cosine' | 'inverse-sqrt' | 'wsd'
  readonly warmup: number
  readonly warmupFrom?: number | undefined
  readonly minLr: number
  readonly decaySteps?: number | undefined
  readonly cooldown?: number | undefined
  readonly cooldownShape?: string | undefined
}

export type RunData =
  /** Token ids of `width` bytes, least byte first, in runs of seq tokens: first those trained on, then those held out. */
  | {
      readonly kind: 'tokens'
      readonly file: string
      readonly width: 1 | 2 | 4
      readonly samples: number
      readonly heldOut: { readonly firstToken: number; readonly samples: number }
    }
  | { readonly kind: 'progressions'; readonly vocab: number }
  | { readonly kind: 'rotations'; readonly embed: number }
