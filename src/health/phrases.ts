/** All that is said of a run, in English: the name of a phrase begins with the kind of its event; one with a dot stands within others. */
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

const suspect = 'suspect the machine of that rank: memory or a core that fails now and then'

export const eventPhrases = {
  ...failurePhrases,
  notFinite: ['the loss is not finite', 'try a smaller lr, a warm-up, or clip, and look at the data of this step'],
  'notFinite/before': ['{what} is not finite before the step, on rank {ranks}', 'resume from a checkpoint before it'],
  'notFinite/parameter': ['{parameter} is not finite before the step'],
  'notFinite/chance': ['run again twice, the step is finite: what broke it was not the data, nor the program', suspect],
  'notFinite/differs': [
    'run twice from the same state, the step has other bits the second time: first in {where}{rank}',
    suspect,
  ],
  'notFinite/data': ['the data has it: {input}{microbatch}{rank} holds {value}', 'look at the data of this step'],
  'notFinite/made': [
    'the first such number is made in {where}{microbatch}{rank}: {op} gives {value} in %{result}{operands}',
    'try a smaller lr, a warm-up or clip, or look at the data of this step',
  ],
  'notFinite/loss': ['the loss is {loss}'],
  'notFinite/call': [
    'the first such number is made in {where}{microbatch} on rank {rank}, call {call}{line}',
    'try a smaller lr, a warm-up or clip, or look at the data of this step',
  ],
  'notFinite/once': [
    'run again, the step is finite: what broke it was not the data, nor the program',
    'suspect the machine of a rank: memory or a core that fails now and then',
  ],
  'notFinite/sum': [
    'the first such number is made where gradients are summed, or their norm',
    'try a smaller lr, a warm-up, or clip, and look at the data of this step',
  ],
  '.segment-of': ['{segment} of {block}'],
  '.line': [': {line}'],
  '.given-finite': [', which is given finite numbers alone'],
  'skipped/spike': ['gradient norm {norm} is a spike: by the steps before it should be below {limit}'],
  'skipped/above': ['gradient norm {norm} is not below {limit}'],
  'skipped/not-finite': ['gradient norm is not finite'],
  'skipped/scale': ['gradient norm is not finite, scale {before} -> {now}'],
  '.microbatch': [' of microbatch {microbatch}'],
  '.rank': [' on rank {rank}'],
  '.operands': [', of {operands}'],
  '.operand': ['%{operand} up to {most}'],
  '.state': ['the {state} of {parameter}'],

  'replicasDiffer/odd': [
    '{what}: rank {odd} has other bits than rank {others}, which agree',
    '{resume}, and suspect the machine of that rank',
  ],
  'replicasDiffer/several': [
    '{what}: rank {odd} have other bits than rank {others}, which agree',
    '{resume}, and suspect the machine of that rank',
  ],
  'replicasDiffer/all': [
    '{what}: ranks {others} should hold the same and do not; which is right nobody can tell',
    '{resume}, and suspect the machine of these ranks',
  ],
  '.resume': ['resume from the checkpoint of step {step}, after which all replicas were equal, or an earlier one'],
  '.start-again': ['start the run again: no comparison of replicas was equal before'],
  'replicasDiffer/again': [
    'run twice from the same state, the step has other bits the second time: first in {where}{rank}',
    suspect,
  ],

  lossSpike: [
    'loss {value}, where the steps before led to expect {expected}: {deviations} deviations above',
    'look at the data of this step; a smaller lr, a longer warm-up or clip make spikes rarer, training.spikes: skip skips those of the norm',
  ],
  normSpike: [
    'gradient norm {value}, where the steps before led to expect {expected}: {deviations} deviations above',
    'look at the data of this step; a smaller lr, a longer warm-up or clip make spikes rarer, training.spikes: skip skips those of the norm',
  ],
  'normSpike/skipped': [
    'gradient norm {value}, where the steps before led to expect less than {limit}: the step was skipped',
    'look at the data of this step; where many are skipped, take a smaller lr, a longer warm-up or clip',
  ],
  deadUnits: [
    '{units} of its {of} units have had no gradient for {steps} steps: they no longer learn',
    'go back to a checkpoint before it with a smaller lr, a longer warm-up or clip: a step that was too large leaves units where nothing moves them',
  ],
  'deadUnits/experts': [
    'no token reaches expert {experts}: no gradient for {steps} steps',
    'balance the experts: a higher rate of their biases (model.moe.bias), or coefficients of a loss (model.moe.loss)',
  ],
  diverges: [
    'the loss rises: {loss} in the last {steps} steps, {lowest} around step {since}{lr}',
    'go back to a checkpoint of about step {since} with a third of the lr, a longer warm-up, or clip',
  ],
  '.lr': ['; the learning rate is {lr}'],
  'scaleStuck/least': [
    'the loss scale has been at its minimum, {scale}, for {steps} steps: small gradients vanish in 16 bits',
    'gradients overflow by themselves: try a smaller lr, clip, or precision bf16, which has the range of f32',
  ],
  'scaleStuck/overflows': [
    '{share} % of the last {steps} steps overflowed and were skipped; the scale went from {from} to {to}',
    'let the scale grow less often (training.lossScale.interval), or take precision bf16',
  ],

  straggler: [
    'computes {times} times as long as ranks with the same work: they wait for it{others}',
    'look at its host: clocks, temperature, other processes; or leave it out',
  ],
  '.stolen': [', while other processes take {share} % of the cores'],
  'slowLink/group': [
    'collectives along {axis} take {times} times as long among ranks {ranks} as among others: a link of theirs is slow',
    'look at the links of these ranks: errors, a port that negotiated less, other traffic',
  ],
  'slowLink/everywhere': [
    'collectives along {axis} take {times} times as long as predicted on {cluster}',
    'the network moves fewer bytes a second than it was said to, or others use it',
  ],
  'slowLink/much': [
    'collectives along {axis} take much longer than predicted on {cluster}',
    'the network moves fewer bytes a second than it was said to, or others use it',
  ],
  'imbalance/stage': [
    'stage {from} is busy {times} times as long as a mean stage: move one layer from stage {from} to {to}: -{gain} %',
    'plan.layers: [{layers}]',
  ],
  'imbalance/simulated': [
    'stage {from} is busy {times} times as long as a mean stage: move one layer from stage {from} to {to}: -{gain} % of a step, by simulation on {cluster}',
    'plan.layers: [{layers}]',
  ],
  'imbalance/no-move': [
    'stage {from} is busy {times} times as long as a mean stage; no layer moved elsewhere makes a step shorter',
  ],
  'imbalance/experts': [
    'the busiest expert gets {times} times the tokens of a mean one{idle}{rank}',
    'let the router balance: model.moe.loss, or a bias that follows the load (model.moe.bias: 0.001)',
  ],
  '.idle': [', and {idle} of {experts} get none'],
  '.busiest': ['; the busiest rank has {times} times the mean, and the others wait for it'],

  'dataRepeats/samples': [
    '{share} % of the samples of the last {steps} steps came before, in the first pass over the data',
    'the data holds the same text several times: remove what is double',
  ],
  'dataRepeats/epochs': [
    'the data has been passed {epochs} times ({samples} samples): what is repeated teaches less and less',
    'take more data, or fewer steps; compare the loss with that of held-out data (training.evalEvery)',
  ],
  dataLoader: [
    'ranks wait {share} % of a step for their data ({ms} ms)',
    'tokenise once and train on token files (data.source: tokens.bin), on a faster disk',
  ],

  'memory/allocator': [
    'the device ran out of memory {retries} times in the last {steps} steps{peak}: all of what was cached is given back and asked for again',
    'take less memory: lockstep doctor names the cheapest changes',
  ],
  '.peak': [', with {peak} GiB at the peak'],
  'memory/plan': ['the plan takes {share} % of the memory that may be used', 'the cheapest changes: {changes}'],
  'memory/none': [
    'the plan takes {share} % of the memory that may be used',
    'no single change takes less: lockstep plan searches all',
  ],
  '.cheaper': ['{change} ({less} GiB less, time {time} %)'],

  'prediction/compute': [
    'all ranks compute {times} times as long as predicted on {cluster}',
    'the device is slower than it was said to be (clocks, power, other processes), or the cluster file is wrong',
  ],
  'prediction/step': [
    'a step takes {times} times as long as predicted on {cluster}',
    'measure it: train --spans, or replan, says what is slower than it should be',
  ],
  axisOrder: [
    'with ranks in the order {order} axes that talk much lie on slow links: a step would take {gain} % less in the order {usual}',
    'leave plan.order out, or write {usual}',
  ],
  network: [
    'collectives that nothing hides take {share} % of a step, most of it along {axis} ({most} %)',
    'try {change}: -{gain} %',
  ],
  bubble: [
    'ranks wait {share} % of a step for the pipeline: {stages} stages, {microbatches} microbatches',
    'try {change}: -{gain} %',
  ],
  microbatches: [
    'microbatches of {size} {sequences} are too small for the device: its kernels are not filled',
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

  'restart/emitted': ['{failure}; goes on after step {from}, {again}'],
  '.suspended': ['rank {rank} was suspended (SIGSTOP)'],
  '.killed': ['rank {rank} was killed by {signal}'],
  '.first-to-fail': ['the first to fail was rank {rank}, with exit code {code}'],
  '.lost-step': ['{steps} step run again'],
  '.lost-steps': ['{steps} steps run again'],
  '.nothing-lost': ['no step is lost'],
  'timeout/emitted': ['nothing moved for longer than a rank waits: {why}'],
  'replanned/emitted': ['goes on with the plan for {ranks} ranks'],
  'saveFailed/path': ['cannot write {path}: {why}', 'the run goes on, and tries again at the next checkpoint'],
  failed: ['the run ended here: {why}'],
  'restart/from': ['{failure}; goes on after step {from}, from {where}{again}'],
  '.again': [', and repeats {steps} step'],
  '.again-many': [', and repeats {steps} steps'],
  '.memory': ['the ranks’ memory'],
  '.seed': ['the weights of its seed'],
  replanned: ['{ranks} ranks are there: {plan}, instead of {before}'],
  'checkpointDamaged/begin': ['{why}', '{path} is used instead'],
  'checkpointDamaged/written': ['{why}', 'the run goes on, and tries again at the next checkpoint'],
  'checkpointDamaged/passed': ['{path}: {why}'],
  'checkpointDamaged/copy': ['the copy of step {step} in {where}: {why}'],
  checkpointDropped: [
    '{path} is not written: the one before it is still being written',
    'save less often with --save-every, or to a faster disk',
  ],
  saveFailed: ['{why}', 'the run goes on, and tries again at the next checkpoint'],
  'timeout/rank': [
    'rank {rank} stands still {still}{before}',
    'the flight record says what every rank was at; --keep-going goes on from the step before',
  ],
  'timeout/all': [
    'all ranks stand still {still}{before}',
    'the flight record says what every rank was at; --keep-going goes on from the step before',
  ],
  '.longer': ['longer than ranks may wait'],
  '.seconds': ['for {seconds} s'],
  '.usual': [', where this has never taken more than {usual} s'],
} as const satisfies Partial<Record<EventKind | `${EventKind}/${string}` | `.${string}`, Phrase>>

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
