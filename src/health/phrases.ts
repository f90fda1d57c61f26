/** Messages of events of a run, in English: the key begins with the kind of the event; keys with a dot are clauses of others. */
import {
  english,
  type Filling,
  failurePhrases,
  type Phrase,
  type Spoken,
  speak,
  spoken,
  type Tongue,
} from '../base/index.js'
import type { EventKind, HealthEvent } from './event.js'

const suspect = 'suspect the hardware of that rank: intermittent memory or core errors'

export const eventPhrases = {
  ...failurePhrases,
  notFinite: ['the loss is NaN or Inf', 'try a smaller lr, a warmup, or clip, and check the data of this step'],
  'notFinite/before': ['{what} is NaN or Inf before the step, on rank {ranks}', 'resume from an earlier checkpoint'],
  'notFinite/parameter': ['{parameter} is NaN or Inf before the step'],
  'notFinite/chance': ['two replays of the step are finite: the cause was neither the data nor the program', suspect],
  'notFinite/differs': [
    'the step is not reproducible: a replay from the same state gives different bits, first in {where}{rank}',
    suspect,
  ],
  'notFinite/data': [
    'the input data has it: {input}{microbatch}{rank} contains {value}',
    'check the data of this step',
  ],
  'notFinite/made': [
    'the first NaN or Inf is computed in {where}{microbatch}{rank}: {op} gives {value} in %{result}{operands}',
    'try a smaller lr, a warmup or clip, or check the data of this step',
  ],
  'notFinite/loss': ['the loss is {loss}'],
  'notFinite/call': [
    'the first NaN or Inf is computed in {where}{microbatch} on rank {rank}, call {call}{line}',
    'try a smaller lr, a warmup or clip, or check the data of this step',
  ],
  'notFinite/once': [
    'a replay of the step is finite: the cause was neither the data nor the program',
    'suspect the hardware of a rank: intermittent memory or core errors',
  ],
  'notFinite/sum': [
    'the first NaN or Inf appears in the reduction of gradients or in the grad norm',
    'try a smaller lr, a warmup, or clip, and check the data of this step',
  ],
  '.segment-of': ['{segment} of {block}'],
  '.line': [': {line}'],
  '.given-finite': [', from finite inputs'],
  'skipped/spike': ['grad norm {norm} is a spike: expected below {limit}, from earlier steps'],
  'skipped/above': ['grad norm {norm} >= {limit}'],
  'skipped/not-finite': ['grad norm is NaN or Inf'],
  'skipped/scale': ['grad norm is NaN or Inf, loss scale {before} -> {now}'],
  '.microbatch': [' of microbatch {microbatch}'],
  '.rank': [' on rank {rank}'],
  '.operands': [', of {operands}'],
  '.operand': ['%{operand} up to {most}'],
  '.state': ['the {state} of {parameter}'],

  'replicasDiffer/odd': [
    '{what}: rank {odd} differs from ranks {others}, which agree',
    '{resume}, and suspect the hardware of that rank',
  ],
  'replicasDiffer/several': [
    '{what}: ranks {odd} differ from ranks {others}, which agree',
    '{resume}, and suspect the hardware of these ranks',
  ],
  'replicasDiffer/all': [
    '{what}: ranks {others} should be equal and differ; there is no majority',
    '{resume}, and suspect the hardware of these ranks',
  ],
  '.resume': ['resume from the checkpoint of step {step}, where all replicas were equal, or an earlier one'],
  '.start-again': ['restart the run from scratch: no earlier comparison of replicas was equal'],
  'replicasDiffer/again': [
    'the step is not reproducible: a replay from the same state gives different bits, first in {where}{rank}',
    suspect,
  ],

  lossSpike: [
    'loss {value}, expected {expected} from earlier steps: {deviations} standard deviations above',
    'check the data of this step; a smaller lr, a longer warmup or clip reduce spikes; training.spikes: skip skips steps with a grad-norm spike',
  ],
  normSpike: [
    'grad norm {value}, expected {expected} from earlier steps: {deviations} standard deviations above',
    'check the data of this step; a smaller lr, a longer warmup or clip reduce spikes; training.spikes: skip skips steps with a grad-norm spike',
  ],
  'normSpike/skipped': [
    'grad norm {value}, expected below {limit} from earlier steps: the step was skipped',
    'check the data of this step; if many steps are skipped, use a smaller lr, a longer warmup or clip',
  ],
  deadUnits: [
    '{units} of {of} units have had no gradient for {steps} steps: they are dead',
    'resume from an earlier checkpoint with a smaller lr, a longer warmup or clip: an update that is too large can leave units without a gradient',
  ],
  'deadUnits/experts': [
    'no token is routed to expert {experts}: no gradient for {steps} steps',
    'balance the load: a higher update rate of the router bias (model.moe.bias), or a load-balancing loss (model.moe.loss)',
  ],
  diverges: [
    'the loss is rising: {loss} over the last {steps} steps, {lowest} around step {since}{lr}',
    'resume from a checkpoint near step {since} with a third of the lr, a longer warmup, or clip',
  ],
  '.lr': ['; the learning rate is {lr}'],
  'scaleStuck/least': [
    'the loss scale has been at its minimum, {scale}, for {steps} steps: small gradients underflow in 16 bits',
    'gradients overflow even unscaled: try a smaller lr, clip, or precision bf16, which has the range of f32',
  ],
  'scaleStuck/overflows': [
    '{share} % of the last {steps} steps overflowed and were skipped; the loss scale went from {from} to {to}',
    'let the loss scale grow less often (training.lossScale.interval), or use precision bf16',
  ],

  straggler: [
    'compute time is {times} times that of ranks with the same work, which wait for it{others}',
    'check its host: clocks, temperature, other processes; or exclude it',
  ],
  '.stolen': [', while other processes use {share} % of the cores'],
  'slowLink/group': [
    'collectives along {axis} take {times} times as long among ranks {ranks} as among others: one of their links is slow',
    'check the links of these ranks: errors, a port that negotiated a lower speed, other traffic',
  ],
  'slowLink/everywhere': [
    'collectives along {axis} take {times} times as long as predicted on {cluster}',
    'the network bandwidth is below its specification, or other jobs share it',
  ],
  'slowLink/much': [
    'collectives along {axis} take much longer than predicted on {cluster}',
    'the network bandwidth is below its specification, or other jobs share it',
  ],
  'imbalance/stage': [
    'stage {from} is busy {times} times as long as the average stage: move one layer from stage {from} to {to}: -{gain} %',
    'plan.layers: [{layers}]',
  ],
  'imbalance/simulated': [
    'stage {from} is busy {times} times as long as the average stage: move one layer from stage {from} to {to}: -{gain} % of the step, simulated on {cluster}',
    'plan.layers: [{layers}]',
  ],
  'imbalance/no-move': [
    'stage {from} is busy {times} times as long as the average stage; moving a layer does not shorten the step',
  ],
  'imbalance/experts': [
    'the busiest expert gets {times} times the average number of tokens{idle}{rank}',
    'balance the router: a load-balancing loss (model.moe.loss), or a router bias (model.moe.bias: 0.001)',
  ],
  '.idle': [', and {idle} of {experts} experts get none'],
  '.busiest': ['; the busiest rank has {times} times the average, and other ranks wait for it'],

  'dataRepeats/samples': [
    '{share} % of the samples of the last {steps} steps are duplicates, although this is the first epoch',
    'the data contains duplicates: deduplicate it',
  ],
  'dataRepeats/epochs': [
    '{epochs} epochs completed ({samples} samples): expect diminishing returns',
    'add data or reduce steps; compare with the validation loss (training.evalEvery)',
  ],
  dataLoader: [
    'ranks wait for data during {share} % of the step ({ms} ms)',
    'tokenize once and train on token files (data.source: tokens.bin), on a faster disk',
  ],

  'memory/allocator': [
    'the CUDA caching allocator had to free its cache and retry {retries} times in the last {steps} steps{peak}',
    'reduce memory use: lockstep doctor lists the cheapest changes',
  ],
  '.peak': [', with a peak of {peak} GiB'],
  'memory/plan': ['the plan uses {share} % of the memory limit', 'the cheapest changes: {changes}'],
  'memory/none': [
    'the plan uses {share} % of the memory limit',
    'no single change saves memory: lockstep plan searches all plans',
  ],
  '.cheaper': ['{change} ({less} GiB less, step time {time} %)'],

  'prediction/compute': [
    'compute time of all ranks is {times} times the prediction on {cluster}',
    'the device is slower than its specification (clocks, power, other processes), or the cluster file is wrong',
  ],
  'prediction/step': [
    'the step time is {times} times the prediction on {cluster}',
    'measure it: train --trace, or replan, shows what is slower than predicted',
  ],
  axisOrder: [
    'rank order {order} puts communication-heavy axes on slow links: with {usual} the step would take {gain} % less',
    'leave plan.rankOrder out, or write {usual}',
  ],
  network: [
    'exposed collectives take {share} % of the step, most of it along {axis} ({most} %)',
    'try {change}: -{gain} %',
  ],
  bubble: [
    'the pipeline bubble is {share} % of the step: {stages} stages, {microbatches} microbatches',
    'try {change}: -{gain} %',
  ],
  microbatches: [
    'microbatches of {size} {sequences} are too small: kernels do not fill the device',
    'try plan.microbatches: {microbatches}: -{gain} %',
  ],
  '.sequence': ['sequence'],
  '.sequences': ['sequences'],

  '.place': ['{where}{microbatch}'],
  '.in-microbatch': ['{where}, microbatch {microbatch}'],
  '.at-stage': ['stage {stage}'],
  '.at-experts': ['experts of {layer}'],
  '.at-ranks': ['{axis} ranks {ranks}'],
  '.at-all-ranks': ['{axis}, all ranks'],
  '.at-allocator': ['allocator'],
  '.at-compute': ['compute'],
  '.at-epochs': ['epochs'],

  'restart/emitted': ['{failure}; resumes after step {from}, {again}'],
  '.suspended': ['rank {rank} was suspended (SIGSTOP)'],
  '.killed': ['rank {rank} was killed by {signal}'],
  '.first-to-fail': ['rank {rank} failed first, with exit code {code}'],
  '.lost-step': ['{steps} step is repeated'],
  '.lost-steps': ['{steps} steps are repeated'],
  '.nothing-lost': ['no step is lost'],
  'timeout/emitted': ['no progress for longer than the timeout: {why}'],
  'replanned/emitted': ['continues with the plan for {ranks} ranks'],
  'saveFailed/path': ['cannot write {path}: {why}', 'the run continues, and retries at the next checkpoint'],
  failed: ['the run failed here: {why}'],
  'restart/from': ['{failure}; resumes after step {from}, from {where}{again}'],
  '.again': [', and repeats {steps} step'],
  '.again-many': [', and repeats {steps} steps'],
  '.memory': ['memory of the ranks'],
  '.seed': ['the initial weights'],
  replanned: ['{ranks} ranks are available: {plan}, instead of {before}'],
  'checkpointDamaged/begin': ['{why}', '{path} is used instead'],
  'checkpointDamaged/written': ['{why}', 'the run continues, and retries at the next checkpoint'],
  'checkpointDamaged/passed': ['{path}: {why}'],
  'checkpointDamaged/copy': ['the snapshot of step {step} in {where}: {why}'],
  checkpointDropped: [
    '{path} was not written: the previous checkpoint is still being written',
    'save less often (--save-every), or to a faster disk',
  ],
  saveFailed: ['{why}', 'the run continues, and retries at the next checkpoint'],
  'timeout/rank': [
    'rank {rank} is stalled {still}{before}',
    'the flight record shows where every rank was; --keep-going resumes from the previous step',
  ],
  'timeout/all': [
    'all ranks are stalled {still}{before}',
    'the flight record shows where every rank was; --keep-going resumes from the previous step',
  ],
  '.longer': ['for longer than the timeout'],
  '.seconds': ['for {seconds} s'],
  '.usual': [', although it never took more than {usual} s before'],
} as const satisfies Partial<Record<EventKind | `${EventKind}/${string}` | `.${string}`, Phrase>>

/** The message templates of health events, for a UI that translates them. */
export type EventPhrases = typeof eventPhrases
type KindOf<Name> = Name extends `${infer Kind extends EventKind}/${string}`
  ? Kind
  : Name extends EventKind
    ? Name
    : never

/** Phrases that are events, and those that stand within them. */
export type EventPhrase = {
  [Name in keyof EventPhrases]: KindOf<Name> extends never ? never : Name
}[keyof EventPhrases]
type Clause = Exclude<keyof EventPhrases, EventPhrase>

type Facts = Omit<HealthEvent, 'event' | 'message' | 'advice' | 'phrase' | 'values' | 'where' | 'place'> & {
  /** A name, or words that are said in the language of the page. */
  readonly where?: string | Spoken
}

/** An event: what is known of it beside its words. */
export const found = <Name extends EventPhrase>(
  phrase: Name,
  facts: Facts,
  ...values: Filling<EventPhrases[Name]>
): HealthEvent => said(spoken(phrase, values), facts)

/** Where the sentences of others stand in gaps, `sentence` says them. */
export function said(what: Spoken, facts: Facts, sentence?: Tongue['sentence']): HealthEvent {
  const tongue = english(eventPhrases, sentence)
  const [message, advice] = speak(what, tongue)
  const { where, ...known } = facts
  const place = typeof where === 'object' ? { where: speak(where, tongue)[0], place: where } : where && { where }
  const event = what.phrase.split('/')[0] as EventKind // which the name of an event's phrase begins with
  return { ...known, event, ...place, message, ...(advice !== '' && { advice }), ...what }
}

/** Within another phrase. */
export const clause = <Name extends Clause>(phrase: Name, ...values: Filling<EventPhrases[Name]>): Spoken =>
  spoken(phrase, values)

export const percentOf = (share: number): string => (100 * share).toFixed(0)
