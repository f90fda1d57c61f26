/** Plans in words and columns. */
import { type MeshAxis, scaled, showSeconds, showWhole } from '../../base/index.js'
import type { Split } from '../../estimate/index.js'
import { scheduleFacts } from '../../plan/index.js'
import {
  extraWords,
  meetingName,
  type Priced,
  type Request,
  ratesOfPlan,
  type SimulatedPlan,
  searchedAxes,
  zeroName,
} from '../../search/index.js'

export const showDollars = (dollars: number): string =>
  dollars >= 10 ? showWhole(Math.round(dollars)) : dollars.toPrecision(3)

/** How it is cut along an axis, in one cell: '8 sp', '4 ring', '4 etp 2'. */
export function showAxis(split: Split, axis: MeshAxis): string {
  const more: Partial<Record<MeshAxis, readonly (string | number | false | undefined)[]>> = {
    tp: [split.sequenceParallel && 'sp'],
    cp: [(split.ring || (split.ulysses ?? 1) > 1) && meetingName(split)],
    ep: [split.etp && `etp ${split.etp}`, split.rows !== undefined && `capacity ${split.rows}`],
  }
  return [split[axis], ...(more[axis] ?? []).filter(Boolean)].join(' ')
}

/** 'interleaved v4 e7/6': virtual stages per rank, layers of the first and the last stage. */
export function showSchedule({ pp, schedule, chunks, layers }: Split): string {
  if (pp === 1) return '-'
  const ends = layers ? ` e${[...new Set([layers[0], layers[layers.length - 1]])].join('/')}` : ''
  return `${schedule}${scheduleFacts[schedule].chunksFixed ? '' : ` v${chunks}`}${ends}`
}

/** What the cells of these plans mean, as far as they have them. */
export function legendOf(splits: readonly Split[]): string[] {
  const some = (has: (split: Split) => unknown, text: string) => (splits.some(has) ? [text] : [])
  const ends = 'e3/2: layers of the first and last stage (e0: only embedding or head)'
  return [
    `batch: microbatches x microbatch size; recomp: activation checkpointing${splits.some(s => s.sequenceParallel) ? '; sp: sequence parallel' : ''}`,
    ...some(s => s.reduce || s.gather, 'zero 2 r, 3 rg: gradients reduced (r), parameters gathered (g) once per step'),
    ...some(
      ({ pp, schedule, layers }) => pp > 1 && (!scheduleFacts[schedule].chunksFixed || layers),
      `v4: virtual stages per rank; ${ends}`,
    ),
  ]
}

/** '3 rg': gradients reduced and parameters gathered once per step. */
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
  const recomputes = splits.some(({ recompute }) => recompute !== 'none')
  return {
    header: [
      ...[...axes, 'zero', 'batch', 'schedule'],
      ...(recomputes ? ['recomp'] : []),
      ...(beside ? ['extras'] : []),
    ],
    cells: (split: Split): string[] => [
      ...axes.map(axis => showAxis(split, axis)),
      ...planCells(split),
      ...(recomputes ? [recomputed[split.recompute]] : []),
      ...(beside ? [extraWords(split).join(' ') || '-'] : []),
    ],
  }
}

const recomputed = { none: '-', cheap: 'cheap', selective: 'attn', full: 'all', 'per-op': 'some' } as const

const planCells = (split: Split): string[] => [
  showZero(split),
  `${split.microbatches}x${split.microbatch}`,
  showSchedule(split),
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
    `${(100 * mfu).toFixed(1)}%`,
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
