/**
 * Explanations of a search, as codes with values. This table has the English text; pages have other languages.
 */
import {
  either,
  type Nothing,
  type PlanPrecision,
  type Said,
  sayIn,
  showBytes,
  showGiB,
  showPercent,
  showSeconds,
  type Wording,
} from '../base/index.js'
import { type Condition, type ConditionValues, conditionWords } from '../estimate/index.js'
import type { Part } from '../metrics/index.js'
import {
  type MoveValues,
  moveWords,
  partWords,
  type ReasonValues,
  reasonWords,
  showChance,
  type VerdictValues,
  verdictWords,
} from './neighbour-words.js'
import { type ReadingValues, readingWords } from './reading-words.js'

/** Why no plan works: which of the numbers do not go together. */
interface NoPlanValues {
  'no-plan/memory': { readonly bytes: number; readonly capacity: number }
  /** `keeps`: the constraints on it, as they were written. */
  'no-plan/tp': { readonly devices: number; readonly keeps: readonly string[]; readonly possible: readonly number[] }
  'no-plan/stages': {
    readonly devices: number
    readonly stages: number
    readonly keeps: readonly string[]
    readonly tps: readonly number[]
  }
  'no-plan/batch': {
    readonly devices: number
    readonly batch: number
    /** Sequences are cut too. */
    readonly context: boolean
    readonly copies: readonly number[]
  }
  'no-plan/constraints': { readonly devices: number; readonly batch: number; readonly constraints: readonly string[] }
}

/** What would work instead. */
interface InsteadValues {
  'instead/constraint': { readonly constraint: string }
  'instead/no-constraints': Nothing
  'instead/devices': { readonly devices: number }
  'instead/batch': { readonly batch: number }
  'instead/memory': { readonly bytes: number }
  'instead/offload': Nothing
  'instead/precision': { readonly precision: PlanPrecision }
  'instead/lora': { readonly rank: number }
}

export interface Difference {
  readonly field: string
  readonly from: string
  readonly to: string
}

/** The same search on another machine, or with another batch: so many times as much. */
interface WhatIfValues {
  'what-if/network': { readonly by: number }
  'what-if/memory': { readonly by: number }
  'what-if/batch': { readonly by: number }
  'what-if/nothing-fits': Nothing
  /** Relative change of tokens/s. */
  'what-if/speed': { readonly gain: number }
  'plan/same': Nothing
  'plan/differs': { readonly differences: readonly Difference[] }
}

/** Where a step time is from: the simulation of a program, or the closed-form estimate. */
interface Basis {
  readonly simulated: boolean
}

/** About a plan as a whole. */
interface SummaryValues {
  'limit/arithmetic': { readonly share: number }
  /** `rest`: the share of all that is not arithmetic. */
  'limit/part': { readonly part: Part; readonly share: number; readonly rest: number }
  'fit/unlikely': { readonly chance: number; readonly condition: Condition }
  'fit/over': { readonly over: number; readonly room: number }
  'best/none': Nothing
  'best/this': Basis
  'best/faster': Basis & { readonly step: number; readonly gain: number }
  'best/fits': Basis & { readonly step: number }
  'note/own-order': { readonly file: string; readonly simulated: boolean }
  'note/own-recompute': { readonly simulated: boolean }
  'order/faster': { readonly rankOrder: string; readonly step: number; readonly gain: number }
  /** Seconds of a step with it and without; `name` is that of the choice, a path in the plan. */
  'note/slow-compression': {
    readonly name: string
    readonly chosen: string
    readonly simulated: boolean
    readonly step: number
    readonly without: number
  }
}

/** The values of each planner message, by code. */
export interface SentenceValues
  extends ReadingValues,
    ConditionValues,
    MoveValues,
    VerdictValues,
    ReasonValues,
    NoPlanValues,
    InsteadValues,
    WhatIfValues,
    SummaryValues {}

/** The code of a planner message. */
export type SentenceCode = keyof SentenceValues
/** A finding of the planner as a message code with values; `showSentence` gives the English text. */
export type Sentence = Said<SentenceValues>

const keepsTo = (keeps: readonly string[]): string => (keeps.length > 0 ? ` with ${keeps.join(', ')}` : '')

const few = (counts: readonly number[]): (number | string)[] =>
  counts.length > 6 ? [...counts.slice(0, 5), `... ${counts.at(-1)}`] : [...counts]

const noPlanWords: Wording<NoPlanValues> = {
  'no-plan/memory': ({ bytes, capacity }) =>
    `the smallest plan needs ${showBytes(bytes)} per device, but only ${showBytes(capacity)} can be used`,
  'no-plan/tp': ({ devices, keeps, possible }) =>
    `no tp divides ${devices} devices and the model${keepsTo(keeps)}; otherwise tp could be ${either(possible)}`,
  'no-plan/stages': ({ devices, stages, keeps, tps }) =>
    `no tp x pp x dp = ${devices} has at most ${stages} stages${keepsTo(keeps)}; tp could be ${either(tps)}`,
  'no-plan/batch': ({ devices, batch, context, copies }) =>
    `dp = ${devices} / (tp x ${context ? 'cp x ' : ''}pp) would be ${either(few(copies))}, but none divides a batch of ${batch}`,
  'no-plan/constraints': ({ devices, batch, constraints }) =>
    `no plan for ${devices} devices and a batch of ${batch} meets ${constraints.join(', ')}`,
}

const insteadWords: Wording<InsteadValues> = {
  'instead/constraint': ({ constraint }) => `without ${constraint}`,
  'instead/no-constraints': () => 'without any constraint',
  'instead/devices': ({ devices }) => `--devices ${devices}`,
  'instead/batch': ({ batch }) => `--global-batch ${batch}`,
  'instead/memory': ({ bytes }) => `${showBytes(bytes)} more memory`,
  'instead/offload': () => '--allow offload',
  'instead/precision': ({ precision }) => `precision: ${precision}`,
  'instead/lora': ({ rank }) => `LoRA of rank ${rank}`,
}

/** 'x2', '/2' */
const times = ({ by }: { readonly by: number }): string => (by < 1 ? `/${1 / by}` : `x${by}`)

const whatIfWords: Wording<WhatIfValues> = {
  'what-if/network': v => `network ${times(v)}`,
  'what-if/memory': v => `memory ${times(v)}`,
  'what-if/batch': v => `batch ${times(v)}`,
  'what-if/nothing-fits': () => 'nothing fits',
  'what-if/speed': ({ gain }) => `${gain < 0 ? '' : '+'}${showPercent(gain)} tokens/s`,
  'plan/same': () => 'the same plan',
  // A schedule needs no introduction: 'tp 16->8, zb-v'.
  'plan/differs': ({ differences }) =>
    differences.map(({ field, from, to }) => (field === 'schedule' ? to : `${field} ${from}->${to}`)).join(', '),
}

const basis = ({ simulated }: Basis): string => (simulated ? 'simulated' : 'estimated')

const summaryWords: Wording<SummaryValues> = {
  'limit/arithmetic': ({ share }) => `compute; nothing else takes more than ${showPercent(share)}`,
  'limit/part': ({ part, share, rest }) =>
    `${partWords[part]}, ${showPercent(share)} of the step; everything except compute takes ${showPercent(rest)}`,
  'fit/unlikely': ({ chance, condition }) =>
    `may not fit (${showChance(chance)} probability of fitting): it fits if ${sayIn<ConditionValues>(conditionWords, condition)}`,
  'fit/over': ({ over, room }) => `does not fit: ${showGiB(over)} more than the usable ${showGiB(room)}`,
  'best/none': () => 'no plan of this model and batch fits these devices',
  'best/this': v => `this one (${basis(v)})`,
  'best/fits': ({ step, ...v }) => `${showSeconds(step)} (${basis(v)}), the fastest that fits`,
  'best/faster': ({ step, gain, ...v }) => `${showSeconds(step)}, ${showPercent(gain)} faster (${basis(v)})`,
  'note/own-order': ({ file, simulated }) =>
    simulated
      ? `${file} is simulated; alternatives are estimated, as 1f1b where they keep the schedule`
      : `${file} is estimated as 1f1b: this software cannot run its order`,
  'note/own-recompute': ({ simulated }) =>
    `${simulated ? 'this plan is simulated; in alternatives ' : ''}a list of ops to recompute is estimated as half of the forward pass, without memory savings`,
  'order/faster': ({ rankOrder, step, gain }) =>
    `with rankOrder ${rankOrder} it takes ${showSeconds(step)}, ${showPercent(gain)} less (simulated)`,
  'note/slow-compression': ({ name, chosen, simulated, step, without }) =>
    `${name} ${chosen} makes the step slower on these links: ${showSeconds(step)} instead of ${showSeconds(without)} (+${showPercent(step / without - 1)}, ${simulated ? 'both simulated' : 'by estimate'}); it pays off on slower links`,
}

/** The English template of every planner message. */
export const sentences: Wording<SentenceValues> = {
  ...readingWords,
  ...conditionWords,
  ...moveWords,
  ...verdictWords,
  ...reasonWords,
  ...noPlanWords,
  ...insteadWords,
  ...whatIfWords,
  ...summaryWords,
}

/** The English text of a planner message. */
export const showSentence = (sentence: Sentence): string => sayIn<SentenceValues>(sentences, sentence)
