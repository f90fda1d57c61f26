/**
 * Parameters and gradients in PyTorch's comms form. A rank keeps the parameters of the next three stages it will
 * visit: the others are freed (RESHARD), new ones gathered (UNSHARD), just before the task that changes the three.
 * A stage's gradients are reduced after its last weight gradient.
 */
import { partsOf } from './run.js'
import type { Action, CommAction, Task } from './task.js'

export interface Marker {
  readonly kind: 'UNSHARD' | 'RESHARD' | 'REDUCE_GRAD'
  readonly stage: number
}

const mostActive = 3

export function withMarkers(row: readonly CommAction[]): (CommAction | Marker)[] {
  const actions = row.filter(isAction)
  const upcoming = upcomingStages(actions)
  const last = lastBackwards(actions)
  const marked: (CommAction | Marker)[] = []
  let active: readonly number[] = []
  let at = 0
  const keep = (stages: readonly number[]) => {
    for (const stage of active) if (!stages.includes(stage)) marked.push({ kind: 'RESHARD', stage })
    const fetched = stages.filter(stage => !active.includes(stage))
    for (const stage of fetched) marked.push({ kind: 'UNSHARD', stage })
    active = [...active.filter(stage => stages.includes(stage)), ...fetched]
  }
  for (const item of row) {
    if (isAction(item)) keep(upcoming[at++])
    marked.push(item)
    if (isAction(item))
      for (const task of partsOf(item)) if (last.get(task.stage) === task) marked.push({ kind: 'REDUCE_GRAD', stage: task.stage })
  }
  keep([])
  return marked
}

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

function lastBackwards(actions: readonly Action[]): Map<number, Task> {
  const last = new Map<number, Task>()
  for (const task of actions.flatMap(partsOf)) if (task.kind === 'B' || task.kind === 'W') last.set(task.stage, task)
  return last
}
