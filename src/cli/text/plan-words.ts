/** Plans, verdicts and changes in words and columns. */
import { type MeshAxis, meshAxes } from '../../base/index.js'
import type { Fit, Parts, Split } from '../../estimate/index.js'
import { scheduleFacts } from '../../plan/index.js'
import {
  type Difference,
  extraWords,
  meetingName,
  type Neighbour,
  type Priced,
  type Request,
  ratesOfPlan,
  type SimulatedPlan,
  searchedAxes,
  type Verdict,
  zeroName,
} from '../../search/index.js'
import { scaled, showPercent, showSeconds } from './numbers.js'

export const showDollars = (dollars: number): string =>
  dollars >= 10 ? Math.round(dollars).toLocaleString('en-US') : dollars.toPrecision(3)

/** How it is cut along an axis, in one cell: '8 sp', '4 ring', '4 etp 2'. */
export function showAxis(split: Split, axis: MeshAxis): string {
  const more: Partial<Record<MeshAxis, readonly (string | number | false | undefined)[]>> = {
    tp: [split.sequenceParallel && 'sp'],
    cp: [(split.ring || (split.ulysses ?? 1) > 1) && meetingName(split)],
    ep: [split.etp && `etp ${split.etp}`, split.rows !== undefined && `rows ${split.rows}`],
  }
  return [split[axis], ...(more[axis] ?? []).filter(Boolean)].join(' ')
}

/** 'interleaved x4 ends 7': so many chunks a rank, so many layers in the first and in the last stage. */
export function showSchedule({ pp, schedule, chunks, layers }: Split): string {
  if (pp === 1) return '-'
  const ends = layers ? ` ends ${[...new Set([layers[0], layers[layers.length - 1]])].join('/')}` : ''
  return `${schedule}${scheduleFacts[schedule].chunksFixed ? '' : ` x${chunks}`}${ends}`
}

export const legend = [
  'sp: sequence parallel; batch: microbatches x their size; recompute: what backward computes again',
  'zero 2 r, 3 rg: gradients are reduced, parameters gathered once a step, not at each microbatch or use',
  'x4: chunks a rank; ends 3/2: layers of the first and of the last stage (0: embedding or head alone)',
]

/** That a plan fits: in whole percent. */
export const showChance = ({ chance }: Fit): string => `${Math.round(100 * chance)}%`

/** Devices are bought in these. */
export const showGiB = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`

/** '3 rg': gradients reduced and parameters gathered once a step. */
const showZero = ({ zero, reduce, gather }: Split): string =>
  `${zero}${reduce || gather ? ` ${reduce ? 'r' : ''}${gather ? 'g' : ''}` : ''}`

/** Axes worth a column, or a word: cp where a sequence is cut, ep where experts are shared. */
const shownAxes = (splits: readonly Split[]): readonly MeshAxis[] =>
  [...searchedAxes, 'ep' as const].filter(
    axis => (axis !== 'cp' && axis !== 'ep') || splits.some(split => showAxis(split, axis) !== '1'),
  )

/** A header, and the cells of a plan, for a table of some plans. */
export function planColumns(splits: readonly Split[]) {
  const axes = shownAxes(splits)
  const beside = splits.some(split => extraWords(split).length > 0)
  return {
    header: [...axes, 'zero', 'batch', 'schedule', 'recompute', ...(beside ? ['beside'] : [])],
    cells: (split: Split): string[] => [
      ...axes.map(axis => showAxis(split, axis)),
      ...planCells(split),
      ...(beside ? [extraWords(split).join(' ') || '-'] : []),
    ],
  }
}

const recomputed = { none: '-', cheap: 'cheap', selective: 'attn', full: 'all', 'per-op': 'some' } as const

const planCells = (split: Split): string[] => [
  showZero(split),
  `${split.microbatches}x${split.microbatch}`,
  showSchedule(split),
  recomputed[split.recompute],
]

export const numberHeader = ['step', 'MFU', 'tok/s', 'GiB', '$/Btok'] as const

/** Plans are shown as they were simulated, where they were: the memory of a program is known to the byte, otherwise nearly. */
export function numberCells(
  request: Request,
  plan: Priced,
  simulated?: Pick<SimulatedPlan, 'step' | 'arena'>,
): string[] {
  const step = simulated?.step ?? plan.estimate.step
  const { mfu, tokensPerSecond, dollars } = ratesOfPlan(request, plan, step)
  return [
    showSeconds(step),
    mfu === undefined ? '-' : `${(100 * mfu).toFixed(1)}%`,
    scaled(tokensPerSecond),
    ((simulated?.arena ?? plan.bytes) / 2 ** 30).toFixed(1),
    dollars === undefined ? '-' : showDollars(dollars),
  ]
}

export function showMesh(split: Split): string {
  const axes = shownAxes([split]).map(axis => `${axis} ${showAxis(split, axis)}`)
  return [...axes, ...(split.zero > 0 ? [zeroName(split)] : [])].join(', ')
}

/** The whole plan in one line, in the words of a job file. */
export function showPlan(split: Split): string {
  const { pp, microbatch, microbatches, recompute } = split
  return [
    showMesh(split),
    ...(pp > 1 ? [showSchedule(split)] : []),
    `batch ${microbatches}x${microbatch}`,
    ...(recompute === 'none' ? [] : [`recompute ${recompute}`]),
    ...extraWords(split),
  ].join(', ')
}

const communication = Object.fromEntries(meshAxes.map(axis => [axis, `${axis} communication`])) as Record<
  MeshAxis,
  string
> // all of them

/** Names of the parts of a price, and of a simulation. */
export const partNames: Readonly<Record<keyof Parts | 'stragglers' | 'offload', string>> = {
  compute: 'compute',
  recompute: 'recompute',
  bubble: 'bubble',
  ...communication,
  pp: 'pp messages',
  optimizer: 'optimizer',
  stragglers: 'stragglers',
  offload: 'moves between spaces',
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
      return verdict.fit.verdict === 'fits if' ? `may not fit (${showChance(verdict.fit)})` : 'does not fit'
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
      return `needs ${showGiB(plan?.bytes ?? 0)}, ${showGiB(verdict.over)} too much (${verdict.grew})`
    case 'unwanted':
      return verdict.constraint
    case 'impossible':
      return verdict.why
  }
}

const signed = (seconds: number): string => `${seconds < 0 ? '-' : '+'}${showSeconds(Math.abs(seconds))}`

/** 'tp 16->8, zb-v': a schedule needs no introduction. */
export const showDifferences = (differences: readonly Difference[]): string =>
  differences.length === 0
    ? 'the same plan'
    : differences.map(({ field, from, to }) => (field === 'schedule' ? to : `${field} ${from}->${to}`)).join(', ')
