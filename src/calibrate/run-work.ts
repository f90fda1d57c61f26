/** The instructions that a run has timed, as work: kernels, and collectives of so many bytes among so many ranks. */
import { median, sizeOf } from '../base/index.js'
import type { CollectivePoint } from '../cluster/index.js'
import { isKernel, workOf } from '../cost/index.js'
import type { Group, Program } from '../ir/index.js'
import type { Observation } from './observe.js'
import type { RunTimes } from './times.js'

export interface RunWork {
  readonly kernels: readonly Observation[]
  /** Equal ones once. */
  readonly collectives: readonly CollectivePoint[]
}

export function workOfRun(program: Program, { instructions }: RunTimes): RunWork {
  const kernels: Observation[] = []
  const collectives = new Map<string, CollectivePoint[]>()
  for (const [name, index, kind, seconds] of instructions) {
    const segment = program.segments[name]
    const instr = segment?.instrs[index]
    if (instr?.kind !== kind || !(seconds > 0)) continue
    const work = workOf(instr, segment, program)
    if (isKernel(work)) kernels.push({ kernel: work, seconds })
    if (work.kind !== 'collective') continue
    const point = { kind: work.how, ranks: membersOf(program, work.group), bytes: work.bytes }
    const key = JSON.stringify(point)
    if (point.ranks > 1 && point.bytes > 0)
      collectives.set(key, [...(collectives.get(key) ?? []), { ...point, seconds }])
  }
  const merged = [...collectives.values()].map(same => ({ ...same[0], seconds: median(same.map(one => one.seconds)) }))
  return { kernels, collectives: merged.sort((a, b) => b.seconds - a.seconds) }
}

const membersOf = ({ mesh }: Program, { axes, stages }: Group): number =>
  stages?.length ?? axes.reduce((size, axis) => size * sizeOf(mesh, axis), 1)
