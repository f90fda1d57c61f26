/** What an axis is for is said once: layouts, checks, ranks and words follow from the table. */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Axis,
  axisOfGroup,
  batchRanks,
  dataRanks,
  defaultOrder,
  isAxis,
  layoutKey,
  meshAxes,
  oneRank,
  rankOrder,
  ranksOf,
} from '../src/base/index.js'
import { canonical, type ExpertAxes, type Purpose, shardedOn } from '../src/compile/layouts.js'
import { Plan } from '../src/plan/index.js'
import { tensorOf } from './tiny.js'

test('every axis has its place among the ranks and is a field of a plan', () => {
  deepEqual([...rankOrder].sort(), [...meshAxes].sort())
  equal(Plan.parse({}).rankOrder, defaultOrder)
  for (const axis of meshAxes) equal(Plan.parse({})[axis], 1)
})

const all: readonly Axis[] = ['tp', 'cp', 'dp', 'pp']
const factored: readonly Axis[] = ['tp.1', 'tp.0', 'dp']

/** Dims of a value, a parameter or an input, and how it lies on a mesh whose axes all have two ranks. */
const layouts: readonly (readonly [axes: readonly Axis[], Purpose, dims: string, layout: string])[] = [
  [all, 'value', 'batch 8, seq 8, embed 8', 'batch/dp seq/cp.tp'],
  [all, 'value', 'batch 8, seq 8, ffn 8', 'batch/dp ffn/tp seq/cp'],
  [all, 'value', 'batch 8, seq 8, kvHeads 2, group 2, headDim 4', 'batch/dp kvHeads/tp seq/cp'],
  [all, 'param', 'embed 8, ffn 8', 'ffn/tp'],
  [all, 'param', 'expert 8, embed 8, expertFfn 8', 'expert/dp.cp expertFfn/tp'],
  [all, 'param', 'expert 2, embed 8, expertFfn 8', 'expertFfn/tp'],
  [all, 'param', 'seq 8, embed 8', ''],
  [all, 'input', 'batch 8, seq 8', 'batch/dp seq/cp'],
  [factored, 'value', 'batch 8, seq 8, kvHeads 2, group 2, headDim 4', 'batch/dp group/tp.1 kvHeads/tp.0'],
  [factored, 'value', 'batch 8, seq 8, ffn 8', 'batch/dp ffn/tp.0.tp.1'],
  [factored, 'value', 'batch 8, seq 8, embed 8', 'batch/dp seq/tp.0.tp.1'],
  [factored, 'value', 'batch 8, seq 6, embed 8', 'batch/dp'],
]
for (const [axes, purpose, dims, layout] of layouts)
  test(`on ${axes.join(' ')} a ${purpose} of ${dims} lies ${layout || 'whole'}`, () => {
    const experts: ExpertAxes = axes === all ? { ep: ['cp', 'dp'], etp: ['tp'] } : { ep: [], etp: [] }
    const s = shardedOn(
      { axes: axes.map(name => ({ name, size: 2 })) },
      { sequenceParallel: true, cp: 1, attention: 'gather' },
      experts,
    )
    equal(layoutKey(canonical(s, tensorOf(dims).dims, purpose)), layout)
  })

test('a collective is counted under one axis', () => {
  const groups: readonly (readonly [readonly Axis[], string | undefined])[] = [
    [['tp'], 'tp'],
    [['tp.0', 'tp.1'], 'tp'],
    [['dp', 'cp'], 'dp'],
    [['pp'], 'pp'],
    [['dp', 'tp'], undefined],
    [[], undefined],
  ]
  for (const [axes, axis] of groups) equal(axisOfGroup(axes), axis, axes.join())
})

test('ranks by what they share', () => {
  const sizes = { ...oneRank, tp: 2, pp: 3, dp: 5, cp: 7, ep: 11 }
  deepEqual([ranksOf(sizes), dataRanks(sizes), batchRanks(sizes)], [2 * 3 * 5 * 7, 5 * 7, 5])
})

test('words that are axes, and words that are not', () => {
  for (const word of ['tp', 'pp', 'tp.0', 'dp.12', 'tp.0.1']) equal(isAxis(word), true, word)
  for (const word of ['', 'xp', 'tp.', 'tp.x', 'tp.0.1.0', 'tpp', 'toString']) equal(isAxis(word), false, word)
})
