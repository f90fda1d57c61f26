/** One phase of a block as the simulator plays it: runs of compute, starts of collectives, waits. */
import { axisOfCollective, type Collective, type Group, madeBy, traitsOf } from '../../ir/index.js'
import { membersOf } from '../../simulate/index.js'
import { Clock, type Flight, type WaitedAxis } from './clock.js'
import type { InstrCosts, PricedInstr, SizedSegment } from './instr-costs.js'
import type { Lanes } from './lanes.js'
import type { Sizes } from './sizes.js'

type Item =
  /** `again`: recomputation. */
  | { readonly kind: 'work'; readonly instrs: readonly PricedInstr[]; readonly again: boolean }
  | { readonly kind: 'start'; readonly instr: PricedInstr; readonly group: Group }
  /** For the collective started `back` starts ago. */
  | { readonly kind: 'wait'; readonly back: number; readonly axis: WaitedAxis }

export type Task = readonly Item[]

/** `made`: what the forward pass of the block computes. */
export function taskOf(of: SizedSegment, costs: InstrCosts, made: ReadonlySet<string>): Task {
  const task: Item[] = []
  const started: string[] = []
  const axes = new Map<string, WaitedAxis>()
  let run: { instrs: PricedInstr[]; again: boolean } | undefined
  for (const instr of of.segment.instrs) {
    const { starts, finishes, writes } = traitsOf(instr)
    if (starts || finishes !== undefined) run = undefined
    if (starts) {
      const collective = instr as Collective // only collectives start
      axes.set(writes[0], waitedAxis(collective))
      started.push(writes[0])
      task.push({ kind: 'start', instr: costs.of(instr, of), group: collective.group })
    } else if (finishes !== undefined) {
      const back = started.length - started.lastIndexOf(finishes)
      task.push({ kind: 'wait', back, axis: axes.get(finishes)! })
    } else {
      const again = made.has(madeBy(instr))
      if (run?.again !== again) {
        run = { instrs: [], again }
        task.push({ kind: 'work', ...run })
      }
      run.instrs.push(costs.of(instr, of))
    }
  }
  return task
}

/** Collectives over other axes than tp, cp and ep are data parallel. */
function waitedAxis(instr: Collective): WaitedAxis {
  const axis = axisOfCollective(instr)
  return axis === 'tp' || axis === 'cp' || axis === 'ep' ? axis : 'dp'
}

/** Plays a task on a rank, with no other communication. */
export function played(task: Task, costs: InstrCosts, sizes: Sizes, lanes: Lanes, contention: number): Clock {
  const clock = new Clock(contention)
  const flights: (Flight | undefined)[] = []
  for (const item of task)
    if (item.kind === 'work') {
      let seconds = 0
      for (const instr of item.instrs) seconds += costs.seconds(instr, sizes)
      clock.work(seconds, item.again)
    } else if (item.kind === 'start') {
      const { size, stride } = membersOf(sizes.mesh, item.group)
      flights.push(clock.start(costs.seconds(item.instr, sizes), lanes.of(size, stride)))
    } else clock.wait(flights[flights.length - item.back], item.axis)
  return clock
}

/**
 * A ring with `turns` more steps than `written`, which has one more than `fewer`: the step by which they differ is repeated, in up to two
 * places, since a backward pass may recompute attention first. Undefined: that step cannot be recognized.
 */
export function continued(fewer: Task, written: Task, turns: number): Task | undefined {
  const more = written.length - fewer.length
  if (more === 0) return written
  const end = fewer.length
  const first = firstAfter(end, at => sameItem(fewer[at], written[at]))
  const last = end - firstAfter(end - first, at => sameItem(fewer[end - 1 - at], written[written.length - 1 - at]))
  for (let brought = more; brought > 0; brought--) {
    const between = fewer.slice(first, last).every((item, i) => sameItem(item, written[first + brought + i]))
    if (!between || (brought < more && first === last)) continue
    const again = (from: number, to: number) => Array.from({ length: turns }, () => written.slice(from, to)).flat()
    const second = last + brought
    return [
      ...written.slice(0, first + brought),
      ...again(first, first + brought),
      ...written.slice(first + brought, second),
      ...again(second, second + more - brought),
      ...written.slice(second),
    ]
  }
  return undefined
}

/** The first number below `many` for which a condition does not hold, or `many`. */
function firstAfter(many: number, holds: (at: number) => boolean): number {
  let at = 0
  while (at < many && holds(at)) at++
  return at
}

const sameItem = (a: Item, b: Item): boolean => {
  if (a.kind === 'work' && b.kind === 'work')
    return (
      a.again === b.again &&
      a.instrs.length === b.instrs.length &&
      a.instrs.every(({ shape }, i) => shape === b.instrs[i].shape)
    )
  if (a.kind === 'start' && b.kind === 'start') return a.instr.shape === b.instr.shape
  return a.kind === 'wait' && b.kind === 'wait' && a.back === b.back && a.axis === b.axis
}
