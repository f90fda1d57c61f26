/** Initial weights that several ranks draw are those one would draw, however they are held. */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { coordinatesOf, elementsOf, heldElements, localDims, worldOf } from '../src/base/index.js'
import { compileJob } from '../src/compile/index.js'
import { type Drawing, draw } from '../src/engine/native/run/draw.js'
import { assemble, initial } from '../src/geometry/index.js'
import type { Program } from '../src/ir/index.js'
import type { PlanInput } from '../src/plan/index.js'
import { jobOf } from './jobs.js'

const seed = 7

/** Every holder's part at a place of its own. */
function placed({ mesh, params }: Program): { drawing: Drawing; buffer: SharedArrayBuffer } {
  let bytes = 0
  const ranks = Array.from({ length: worldOf(mesh) }, (_, rank) => rank)
  const drawn = params.map(({ name, init, dims, kept, frames }) => {
    const part = 4 * heldElements(mesh, localDims(mesh, dims, kept), kept)
    const holders = ranks
      .filter(rank => frames[coordinatesOf(mesh, rank).pp ?? 0])
      .map((rank, i) => ({ rank, offset: bytes + i * part }))
    bytes += part * holders.length
    return { name, init, dims, kept: [{ dtype: 'f32' as const, layout: kept, holders }] }
  })
  return { drawing: { seed, mesh, params: drawn }, buffer: new SharedArrayBuffer(bytes) }
}

const plans: PlanInput[] = [{}, { dp: 2 }, { tp: 2 }, { dp: 2, zero: 3 }, { pp: 2 }, { dp: 2, tp: 2, pp: 2, zero: 3 }]

for (const plan of plans)
  test(`${JSON.stringify(plan)}: three draw what one draws`, () => {
    const program = compileJob(jobOf('gpt', { ...plan, microbatches: 2 }))
    const { drawing, buffer } = placed(program)
    for (const rank of [2, 0, 1]) draw(drawing, { rank, ranks: 3, buffer }, () => true)
    for (const {
      dims,
      kept: [{ layout: kept, holders }],
      ...param
    } of drawing.params) {
      const { mesh } = program
      const held = heldElements(mesh, localDims(mesh, dims, kept), kept)
      const parts = new Map(holders.map(({ rank, offset }) => [rank, new Float32Array(buffer, offset, held)]))
      const { values, spread } = assemble(mesh, dims, kept, parts)
      equal(spread, 0)
      const value = initial(param, seed)
      deepEqual(
        values,
        Float64Array.from({ length: elementsOf(dims) }, (_, i) => value(i)),
      )
    }
  })

test('whoever looks may stop it', () => {
  const { drawing, buffer } = placed(compileJob(jobOf('gpt', {})))
  let looks = 0
  draw(drawing, { rank: 0, ranks: 1, buffer }, () => ++looks < 3)
  equal(looks, 3)
})
