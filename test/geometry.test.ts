/** Where a rank's elements lie in the whole tensor: the runs, against the definition of a layout element by element. */
import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import {
  coordinatesOf,
  elementsOf,
  heldElements,
  indexAlong,
  type Layout,
  localDims,
  worldOf,
} from '../src/base/index.js'
import { assemble, heldRuns, indicesOf, ownPart, partOf } from '../src/geometry/index.js'
import { meshOf, tensorOf } from './tiny.js'

/** The index of each element, dim by dim, then the line cut in equal parts. */
function byDefinition(mesh: ReturnType<typeof meshOf>, text: string, flat: Layout['flat'], rank: number): number[] {
  const { dims, layout } = tensorOf(text)
  const at = coordinatesOf(mesh, rank)
  let block = [0]
  for (const { name, size } of dims) {
    const axes = layout.splits[name]
    const parts = axes.reduce((n, axis) => n * (mesh.axes.find(({ name }) => name === axis)?.size ?? 1), 1)
    const own = Array.from({ length: size / parts }, (_, i) => indexAlong(mesh, axes, at) * (size / parts) + i)
    block = block.flatMap(index => own.map(i => index * size + i))
  }
  const part = heldElements(mesh, localDims(mesh, dims, layout), { ...layout, flat: flat ?? [] })
  const first = indexAlong(mesh, flat ?? [], at) * part
  return block.slice(first, first + part)
}

for (const [axes, text, flat] of [
  [{ dp: 3 }, 'm 5', ['dp']],
  [{ dp: 4 }, 'm 5', ['dp']],
  [{ dp: 8 }, 'm 3, n 2', ['dp']],
  [{ dp: 4 }, '', ['dp']],
  [{ tp: 2, dp: 3 }, 'm 3, n/tp 4', ['dp']],
  [{ tp: 2, dp: 3 }, 'm/tp 4, n 3, k 2', ['dp']],
  [{ tp: 2, dp: 2, ep: 2 }, 'm 3, n/tp 4, k 5', ['ep', 'dp']],
  [{ tp: 2, dp: 2 }, 'm/dp 4, n/tp 6, k 2', undefined],
  [{ tp: 2, dp: 2 }, 'm 3, n/dp+tp 8', undefined],
] as const)
  test(`[${text}] flat over [${flat ?? ''}] on ${JSON.stringify(axes)}: every rank holds what the layout says`, () => {
    const mesh = meshOf(axes)
    const { dims, layout: split } = tensorOf(text)
    const layout: Layout = { ...split, ...(flat && { flat }) }
    const whole = Float64Array.from({ length: elementsOf(dims) }, (_, i) => i + 1)
    const ranks = Array.from({ length: worldOf(mesh) }, (_, rank) => rank)
    for (const rank of ranks) {
      const expected = byDefinition(mesh, text, flat, rank)
      deepEqual([...indicesOf(mesh, dims, layout, rank)], expected)
      const part = [...partOf({ mesh, dims, layout }, coordinatesOf(mesh, rank), whole)]
      const padding = heldElements(mesh, localDims(mesh, dims, layout), layout) - expected.length
      deepEqual(part, [...expected.map(i => i + 1), ...new Array(padding).fill(0)])
    }
    const parts = new Map(ranks.map(rank => [rank, partOf({ mesh, dims, layout }, coordinatesOf(mesh, rank), whole)]))
    deepEqual([...assemble(mesh, dims, layout, parts).values], [...whole])
  })

test('runs are as long as they can be', () => {
  const mesh = meshOf({ tp: 2, dp: 2 })
  const of = (text: string, flat: Layout['flat'], at: Record<string, number>) => {
    const { dims, layout } = tensorOf(text)
    return heldRuns(mesh, dims, { ...layout, ...(flat && { flat }) }, at).map(
      ({ index, length }) => `${index}+${length}`,
    )
  }
  deepEqual(of('m 4, n 6', undefined, {}), ['0+24'])
  deepEqual(of('m/tp 4, n 6', undefined, { tp: 1 }), ['12+12'])
  deepEqual(of('m 4, n 6', ['dp', 'tp'], { dp: 1 }), ['12+6'])
  deepEqual(of('m 3, n/tp 4', ['dp'], { tp: 1, dp: 1 }), ['7+1', '10+2'])
})

test('of a frame that has room for all parts the own one is the one at its place', () => {
  const mesh = meshOf({ dp: 3 })
  const { dims, layout } = tensorOf('m 5')
  const lying = { mesh, dims, layout: { ...layout, flat: ['dp'] as const } }
  const frame = Float32Array.of(1, 2, 3, 4, 5, 0)
  deepEqual([...ownPart({ ...lying, inside: true }, { dp: 1 }, frame)], [3, 4])
  deepEqual([...ownPart({ ...lying, inside: true }, { dp: 2 }, frame)], [5, 0])
  deepEqual([...ownPart(lying, { dp: 2 }, frame)], [1, 2])
})
