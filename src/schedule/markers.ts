/**
 * Parameters and gradients in PyTorch's comms form. A rank keeps the parameters of the next three stages it will
 * visit: the others are freed (RESHARD), new ones gathered (UNSHARD), just before the task that changes the three.
 * A stage's gradients are reduced after its last weight gradient.
 */
import { partsOf } from './run.js'
import type { Action, CommAction } from './task.js'

export interface Marker {
  readonly kind: 'UNSHARD' | 'RESHARD' | 'REDUCE_GRAD'
  readonly stage: number
}

const mostActive = 3

/** Between two tasks: first sends, which others wait for, then markers, then the receives that need not be early. */
export function withMarkers(row: readonly CommAction[]): (CommAction | Marker)[] {
  const actions = row.filter(isAction)
  const upcoming = upcomingStages(actions)
  const reductions = reductionsAfter(actions)
  const marked: (CommAction | Marker)[] = []
  let active: readonly number[] = []
  let from = 0
  for (let at = 0; at <= actions.length; at++) {
    let to = from
    while (to < row.length && !isAction(row[to])) to++
    let cut = to
    while (cut > from && row[cut - 1].kind.startsWith('RECV')) cut--
    const wanted = upcoming[at] ?? []
    marked.push(...row.slice(from, cut), ...reductions[at], ...changes(active, wanted), ...row.slice(cut, to + 1))
    active = [...active.filter(stage => wanted.includes(stage)), ...wanted.filter(stage => !active.includes(stage))]
    from = to + 1
  }
  return marked
}

const changes = (active: readonly number[], wanted: readonly number[]): Marker[] => [
  ...active.filter(stage => !wanted.includes(stage)).map(stage => ({ kind: 'RESHARD', stage }) as const),
  ...wanted.filter(stage => !active.includes(stage)).map(stage => ({ kind: 'UNSHARD', stage }) as const),
]

const isAction = (item: CommAction): item is Action => item.kind === 'overlap' || !('peer' in item)

/** For each action, the next stages from it on, nearest first. */
function upcomingStages(actions: readonly Action[]): number[][] {
  const upcoming: number[][] = new Array(actions.length)
  let near: number[] = []
  for (let at = actions.length - 1; at >= 0; at--) {
    const own = [...new Set(partsOf(actions[at]).map(task => task.stage))]
    near = [...own, ...near.filter(stage => !own.includes(stage))].slice(0, mostActive)
    upcoming[at] = near
  }
  return upcoming
}

/** At i + 1: the reductions that can be done once action i is. */
function reductionsAfter(actions: readonly Action[]): Marker[][] {
  const reductions: Marker[][] = Array.from({ length: actions.length + 1 }, () => [])
  const reduced = new Set<number>()
  for (let at = actions.length - 1; at >= 0; at--)
    for (const { kind, stage } of partsOf(actions[at])) {
      if ((kind !== 'B' && kind !== 'W') || reduced.has(stage)) continue
      reduced.add(stage)
      reductions[at + 1].push({ kind: 'REDUCE_GRAD', stage })
    }
  return reductions
}
