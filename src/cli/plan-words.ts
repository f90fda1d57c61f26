/** Plans, verdicts and changes in words and columns. */
import { showBytes } from '../base/index.js'
import type { Parts, Split } from '../estimate/index.js'
import type { Difference, Neighbour, Priced, Request, Verdict } from '../search/index.js'
import { ratesOfPlan } from '../search/index.js'
import { scaled } from './display.js'

export function showSeconds(seconds: number): string {
  if (seconds >= 100) return `${seconds.toFixed(0)} s`
  if (seconds >= 1) return `${seconds.toFixed(2)} s`
  return seconds >= 1e-3 ? `${(1e3 * seconds).toPrecision(3)} ms` : `${(1e6 * seconds).toPrecision(3)} us`
}

export const showPercent = (share: number, digits = 1): string => `${(100 * share).toFixed(digits)} %`

export function showDollars(dollars: number): string {
  if (dollars >= 10) return `$${Math.round(dollars).toLocaleString('en-US')}`
  return `$${dollars.toPrecision(3)}`
}

/** How it is cut, in one cell: 'tp 8 sp'. */
export const showTensor = ({ tp, sequenceParallel }: Split): string => `${tp}${sequenceParallel ? ' sp' : ''}`

export function showSchedule({ pp, schedule, chunks, layers }: Split): string {
  if (pp === 1) return '-'
  const ends = layers ? ` ${layers[0]}..${layers[layers.length - 1]}` : ''
  return `${schedule}${chunks > 1 ? ` x${chunks}` : ''}${ends}`
}

export const planHeader = ['tp', 'pp', 'dp', 'zero', 'batch', 'schedule', 'recompute'] as const

export const planCells = (split: Split): string[] => [
  showTensor(split),
  String(split.pp),
  String(split.dp),
  String(split.zero),
  `${split.microbatches} x ${split.microbatch}`,
  showSchedule(split),
  split.recompute,
]

export const numberHeader = ['step', 'MFU', 'tokens/s', 'memory', '$/B tok'] as const

export function numberCells(request: Request, plan: Priced, step: number = plan.estimate.step): string[] {
  const { mfu, tokensPerSecond, dollars } = ratesOfPlan(request, plan, step)
  return [
    showSeconds(step),
    mfu === undefined ? '-' : showPercent(mfu),
    scaled(tokensPerSecond),
    showBytes(plan.bytes),
    dollars === undefined ? '-' : showDollars(dollars),
  ]
}

/** The whole plan in one line, in the words of a job file. */
export function showPlan(split: Split): string {
  const { tp, pp, dp, zero, microbatch, microbatches, recompute } = split
  return [
    `tp ${tp}${split.sequenceParallel ? ' with sequence parallelism' : ''}`,
    `pp ${pp}${pp > 1 ? ` (${showSchedule(split)})` : ''}`,
    `dp ${dp}`,
    `zero ${zero}`,
    `${microbatches} microbatch${microbatches > 1 ? 'es' : ''} of ${microbatch}`,
    `recompute ${recompute}`,
  ].join(', ')
}

export const partNames: Readonly<Record<keyof Parts, string>> = {
  compute: 'compute',
  recompute: 'recompute',
  bubble: 'bubble',
  tp: 'tp communication',
  dp: 'dp communication',
  pp: 'pp messages',
  cp: 'cp communication',
  ep: 'ep communication',
  optimizer: 'optimizer',
  other: 'launches and stragglers',
}

/** 'slower by 3.2 %', 'does not fit'. */
export function showVerdict(verdict: Verdict): string {
  switch (verdict.kind) {
    case 'timed': {
      const by = verdict.ratio - 1
      if (Math.abs(by) < 5e-4) return 'the same'
      return by > 0 ? `slower by ${showPercent(by)}` : `faster by ${showPercent(1 / verdict.ratio - 1)}`
    }
    case 'unfit':
      return 'does not fit'
    case 'unwanted':
      return 'not wanted'
    case 'impossible':
      return 'impossible'
  }
}

export function showReason({ verdict, plan }: Neighbour): string {
  switch (verdict.kind) {
    case 'timed':
      return verdict.changes.map(({ part, seconds }) => `${partNames[part]} ${signed(seconds)}`).join(', ')
    case 'unfit':
      return `needs ${showBytes(plan?.bytes ?? 0)}, ${showBytes(verdict.over)} too much: ${verdict.grew}`
    case 'unwanted':
      return verdict.constraint
    case 'impossible':
      return verdict.why
  }
}

const signed = (seconds: number): string => `${seconds < 0 ? '-' : '+'}${showSeconds(Math.abs(seconds))}`

export const showDifferences = (differences: readonly Difference[]): string =>
  differences.length === 0
    ? 'the same plan'
    : differences.map(({ field, from, to }) => `${field} ${from} -> ${to}`).join(', ')
