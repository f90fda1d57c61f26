/** Every quantity that commands, the studio and generated files print, with its definition. docs/guides/metrics.md lists them. */

/** A printed quantity: its title, its unit and its definition. */
export interface Quantity {
  readonly title: string
  readonly unit: string
  readonly definition: string
}

/** The definitions of all printed quantities. */
export const quantities = {
  step: {
    title: 'step time',
    unit: 's',
    definition: 'seconds from the start of a step to the start of the next, on the rank that ends last',
  },
  tokensPerSecond: { title: 'tokens/s', unit: '1/s', definition: 'global batch x sequence length / step time' },
  mfu: {
    title: 'MFU',
    unit: '%',
    definition:
      'model FLOPs / (step time x devices x peak FLOP/s of the matmul precision). Model FLOPs follow PaLM: per token 6 for each active parameter and 12 x heads x headDim x seq for the attention of a layer, the masked half included',
  },
  hfu: {
    title: 'HFU',
    unit: '%',
    definition:
      'the same with the FLOPs of recomputed forward passes added, counted by the same definition: never below MFU',
  },
  bubble: {
    title: 'bubble',
    unit: '%',
    definition: 'mean over all ranks of the share of the step in which a rank waits for another pipeline stage',
  },
  criticalPathBubble: {
    title: 'critical-path bubble',
    unit: '%',
    definition: 'the same of the stage that waits least. The difference between the two is imbalance between stages',
  },
  exposed: {
    title: 'exposed communication',
    unit: '%',
    definition:
      'per axis (tp, cp, ep, dp, pp): the share of the step in which a rank waits for its collectives or messages and computes nothing; mean over ranks',
  },
  memory: {
    title: 'peak memory',
    unit: 'GiB',
    definition: 'the most bytes that the heaviest rank has allocated at one time',
  },
  headroom: {
    title: 'headroom',
    unit: 'GiB',
    definition: 'memory of a device without the reserve for context and fragmentation, minus peak memory',
  },
  traffic: {
    title: 'traffic',
    unit: 'GiB',
    definition:
      'bytes that a rank sends per step, per axis and link. A collective counts on every link that it crosses',
  },
  utilization: {
    title: 'link utilization',
    unit: '%',
    definition: 'the share of the step that the traffic of a link takes at the bandwidth that the rank gets there',
  },
  dollars: {
    title: 'cost',
    unit: '$',
    definition: 'device-hours x price of a device-hour: of a run, or per billion tokens ($/Btok)',
  },
} as const satisfies Readonly<Record<string, Quantity>>
