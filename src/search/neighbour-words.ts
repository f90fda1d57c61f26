/** Single-change alternatives of a plan: the change, the verdict and the reason, as data and in English. */
import {
  type MeshAxis,
  meshAxes,
  type Nothing,
  type Problem,
  type Said,
  sayIn,
  showGiB,
  showPercent,
  showSeconds,
  signedSeconds,
  type Wording,
} from '../base/index.js'
import type { Footprint, Parts, Split } from '../estimate/index.js'
import type { Part } from '../metrics/index.js'
import { type Ends, showEnds } from './reading-words.js'

/** One decision taken differently. */
export interface MoveValues {
  'move/mesh': { readonly more: MeshAxis; readonly less: MeshAxis; readonly by: number }
  'move/microbatch': { readonly microbatch: number }
  'move/zero': ZeroName
  'move/recompute': { readonly recompute: Split['recompute'] }
  'move/sequence-parallel': { readonly on: boolean }
  /** How keys meet queries along cp: 'ulysses 2 x ring 4'. */
  'move/attention': { readonly meeting: string }
  'move/rows': { readonly rows: number | 'worst' }
  /** Chunks where the schedule lets one choose them. */
  'move/schedule': { readonly schedule: string; readonly chunks?: number }
  'move/layers': Ends
  'move/layers-even': Nothing
  /** A change and what else must change with it, in that order. */
  'move/several': { readonly changes: readonly Said<MoveValues>[] }
}

/** What is sharded, and what moves once per step; the defaults (`microbatch`, `use`) are named where another plan moves it less often. */
export interface ZeroName {
  readonly zero: Split['zero']
  readonly reduce?: 'step' | 'microbatch'
  readonly gather?: 'step' | 'use'
}

/** By how much a part of a step changed. */
export interface Change {
  readonly part: keyof Parts
  readonly seconds: number
}

/** What becomes of the plan. Shares are of the step. */
export interface VerdictValues {
  'verdict/same': Nothing
  'verdict/slower': { readonly by: number }
  'verdict/faster': { readonly by: number }
  'verdict/may-not-fit': { readonly chance: number }
  'verdict/unfit': Nothing
  'verdict/unwanted': Nothing
  'verdict/impossible': Nothing
}

export interface ReasonValues {
  'reason/changes': { readonly changes: readonly Change[] }
  /** The step stays as long: what one part saves another takes. */
  'reason/shifted': { readonly from: keyof Parts; readonly to: keyof Parts; readonly seconds: number }
  'reason/memory': { readonly bytes: number; readonly over: number; readonly grew: keyof Footprint }
  'reason/constraint': { readonly constraint: string }
  /** `check` refuses it. */
  'reason/refused': { readonly problem: Problem }
  'reason/batch': { readonly batch: number; readonly dp: number }
  'reason/stages': { readonly layers: number; readonly stages: number }
  'reason/layers': Nothing
  'reason/unwritable': Nothing
}

const communication = Object.fromEntries(meshAxes.map(axis => [axis, `${axis} communication`])) as Record<
  MeshAxis,
  string
> // all of them

/** The names of the categories of step time, estimated or simulated. */
export const partWords: Readonly<Record<Part, string>> = {
  compute: 'compute',
  recompute: 'recompute',
  bubble: 'bubble',
  ...communication,
  pp: 'pp communication',
  optimizer: 'optimizer',
  stragglers: 'stragglers',
  offload: 'offload transfers',
  other: 'launch overhead and stragglers',
}

/** In whole percent. */
export const showChance = (chance: number): string => `${Math.round(100 * chance)}%`

/** 'zero 3, reduce step', in the fields of a job file. */
export const zeroName = ({ zero, reduce, gather }: ZeroName): string =>
  [`zero ${zero}`, ...(reduce ? [`reduce ${reduce}`] : []), ...(gather ? [`gather ${gather}`] : [])].join(', ')

export const moveWords: Wording<MoveValues> = {
  'move/mesh': ({ more, less, by }) => `${more} x${by}, ${less} /${by}`,
  'move/microbatch': ({ microbatch }) => `microbatch ${microbatch}`,
  'move/zero': zeroName,
  'move/recompute': ({ recompute }) => `recompute ${recompute}`,
  'move/sequence-parallel': ({ on }) => `sequence parallel ${on ? 'on' : 'off'}`,
  'move/attention': ({ meeting }) => `attention ${meeting}`,
  'move/rows': ({ rows }) => `expertCapacity ${rows}`,
  'move/schedule': ({ schedule, chunks }) => (chunks === undefined ? schedule : `${schedule}, ${chunks} chunks`),
  'move/layers': ends => `layers ${showEnds(ends)}`,
  'move/layers-even': () => 'layers even',
  'move/several': ({ changes }) => changes.map(change => sayIn<MoveValues>(moveWords, change)).join(', '),
}

export const verdictWords: Wording<VerdictValues> = {
  'verdict/same': () => 'no change',
  'verdict/slower': ({ by }) => `${showPercent(by)} slower`,
  'verdict/faster': ({ by }) => `${showPercent(by)} faster`,
  'verdict/may-not-fit': ({ chance }) => `may not fit (${showChance(chance)})`,
  'verdict/unfit': () => 'does not fit',
  'verdict/unwanted': () => 'excluded by constraint',
  'verdict/impossible': () => 'impossible',
}

export const reasonWords: Wording<ReasonValues> = {
  'reason/changes': ({ changes }) =>
    changes.map(({ part, seconds }) => `${partWords[part]} ${signedSeconds(seconds)}`).join(', '),
  'reason/shifted': ({ from, to, seconds }) =>
    `the ${showSeconds(seconds)} saved in ${partWords[from]} are spent waiting: ${partWords[to]}`,
  'reason/memory': ({ bytes, over, grew }) => `needs ${showGiB(bytes)}, ${showGiB(over)} too much (${grew})`,
  'reason/constraint': ({ constraint }) => constraint,
  'reason/refused': ({ problem: { message, suggestion } }) => `${message}${suggestion ? `; ${suggestion}` : ''}`,
  'reason/batch': ({ batch, dp }) => `a batch of ${batch} is not divisible by dp ${dp}`,
  'reason/stages': ({ layers, stages }) => `${layers} layers do not fill ${stages} stages`,
  'reason/layers': () => 'no layer split is possible',
  'reason/unwritable': () => 'a job file cannot express it',
}
