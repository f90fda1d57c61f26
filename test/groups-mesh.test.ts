/**
 * `lockstep groups` and the compiler number the same ranks: the groups it prints of a grid of layers and of the grid of
 * experts folded into it are those in which a compiled program's parameters and rows lie.
 */
import { deepEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { type Axis, baseOf, defaultOrder, groupOf, type Mesh, worldOf } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import type { Program } from '../src/ir/index.js'
import { check, Job, type PlanInput, rankGroups } from '../src/plan/index.js'
import { expertModels } from './expert-models.js'

const folded: readonly PlanInput[] = [
  { dp: 4, ep: 4 },
  { dp: 4, ep: 2 },
  { dp: 2, tp: 2, ep: 4, sequenceParallel: true },
  { dp: 4, tp: 2, ep: 2, etp: 2 },
  { dp: 2, tp: 2, ep: 4, etp: 1, pp: 2, microbatches: 2 },
  { dp: 2, cp: 2, tp: 2, ep: 4, etp: 1 },
  { dp: 2, cp: 2, tp: 2, ep: 2, etp: 2, pp: 2, microbatches: 2 },
  { dp: 1, cp: 4, tp: 1, ep: 2, etp: 2 },
  { dp: 3, tp: 2, ep: 2, etp: 1 },
]

/** The groups of ranks that differ along these axes only, in rising order. */
function groupsAlong(mesh: Mesh, axes: readonly Axis[]): number[][] {
  const groups = Array.from({ length: worldOf(mesh) }, (_, rank) => groupOf(mesh, rank, axes).sort((a, b) => a - b))
  return groups.filter(([first], rank) => first === rank)
}

/** Axes that split a dim of the experts' weights. */
const splitting = ({ params }: Program, dim: string): readonly Axis[] =>
  params.find(({ name }) => name.endsWith('mlp.experts.gate'))!.kept.splits[dim] ?? []

/** Axes over which rows are dispatched. */
function dispatched({ segments }: Program): readonly Axis[] {
  for (const { instrs } of Object.values(segments))
    for (const instr of instrs) if (instr.kind === 'all-dispatch') return instr.group.axes
  return []
}

for (const plan of folded)
  test(`groups of ${JSON.stringify(plan)} are those of the compiled mesh`, () => {
    const globalBatch = (plan.dp ?? 1) * (plan.microbatches ?? 1)
    const job = Job.parse({ model: expertModels.mixtral, training: { seq: 16, globalBatch }, plan })
    deepEqual(
      check(job).filter(({ severity }) => severity === 'error'),
      [],
    )
    const program = compileJob(job)
    const { mesh } = program
    const { tp, cp, ep, etp, pp } = job.plan
    const found = rankGroups({ ...{ world: worldOf(mesh), tp, cp, ep, etp, pp, dpReplicate: 1 }, order: defaultOrder })
    const { dense, expert } = found.groups!
    const names = mesh.axes.map(({ name }) => name)
    for (const axis of ['tp', 'cp', 'dp', 'pp'] as const)
      deepEqual(
        groupsAlong(
          mesh,
          names.filter(name => baseOf(name) === axis),
        ),
        dense[axis],
        axis,
      )
    const [shared, split] = [splitting(program, 'expert'), splitting(program, 'expertFfn')]
    deepEqual([...dispatched(program)].sort(), [...shared].sort())
    deepEqual(groupsAlong(mesh, shared), expert!.ep, 'ep')
    deepEqual(groupsAlong(mesh, split), expert!.tp, 'etp')
    const copies = names.filter(name => name !== 'pp' && !shared.includes(name) && !split.includes(name))
    deepEqual(groupsAlong(mesh, copies), expert!.dp, 'edp')
    ok(ep === 1 || shared.length > 0)
  })
