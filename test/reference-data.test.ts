/** Whole tensors from parts, first values, and synthetic data: the same under every plan. */
import { deepEqual, equal, ok, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { type Layout, normal, worldOf } from '../src/base/index.js'
import { syntheticData } from '../src/engine/index.js'
import { assemble, indicesOf, initial } from '../src/geometry/index.js'
import { meshOf, tensorOf } from './tiny.js'

const mesh = meshOf({ tp: 2, dp: 3, pp: 2 })
const ranks = Array.from({ length: worldOf(mesh) }, (_, rank) => rank)

/** Every rank's part of the tensor whose element i is i. */
const cut = (text: string): Map<number, Float64Array> => {
  const { dims, layout } = tensorOf(text)
  return new Map(ranks.map(rank => [rank, indicesOf(mesh, dims, layout, rank)]))
}

for (const text of ['', 'm 2, n 6', 'm/tp 2, n/dp 6', 'm/dp+tp 6, n 5', 'm/tp+dp 6, n 1', 'k 3, n/dp 6, m/tp 4'])
  test(`[${text}] is itself again when cut and assembled`, () => {
    const { dims, layout } = tensorOf(text)
    const { values, spread } = assemble(mesh, dims, layout, cut(text))
    deepEqual([...values], [...values.keys()])
    equal(spread, 0)
  })

test('a rank holds the run its coordinates say, major axis first', () => {
  const parts = cut('m/dp+tp 6')
  deepEqual(ranks.map(rank => parts.get(rank)![0]).join(' '), '0 1 2 3 4 5 0 1 2 3 4 5')
  deepEqual(ranks.map(rank => cut('m/tp+dp 6').get(rank)![0]).join(' '), '0 3 1 4 2 5 0 3 1 4 2 5')
})

test('partial parts are summed, or the greatest is taken; replicas are compared', () => {
  const dims = [{ name: 'n', size: 1 }]
  const parts = new Map(ranks.map(rank => [rank, [rank + 1]]))
  const partial = (axes: Layout['partial']) => assemble(mesh, dims, { splits: {}, partial: axes }, parts)
  deepEqual(partial({ tp: 'sum', dp: 'sum', pp: 'sum' }), { values: Float64Array.of(78), spread: 0 })
  deepEqual(partial({ tp: 'max', dp: 'max' }), { values: Float64Array.of(6), spread: 6 })
  throws(() => partial({ tp: 'max', dp: 'sum' }), /no one value/)
})

test('what nobody holds is NaN', () => {
  const { dims, layout } = tensorOf('m/tp 2')
  deepEqual(assemble(mesh, dims, layout, new Map([[1, [5]]])).values, Float64Array.of(NaN, 5))
})

test('first values are numbers of the seed, the name and the index, exact in f32', () => {
  const param = { name: 'w', init: { kind: 'normal', std: 0.02 } } as const
  const value = initial(param, 5)(7)
  equal(value, Math.fround(normal({ seed: 5, name: 'w' })(7) * 0.02))
  deepEqual(
    [initial({ name: 'w', init: { kind: 'ones' } }, 1)(0), initial({ name: 'w', init: { kind: 'zeros' } }, 1)(0)],
    [1, 0],
  )
})

const text = (samples: number) => ({ dtype: 'i32', ...tensorOf(`batch ${samples}, seq 16`) }) as const
const vocab = 11

test('labels are the next tokens, some ignored, and more in one sample than in another', () => {
  const data = syntheticData(
    [
      { name: 'tokens', ...text(12) },
      { name: 'labels', ...text(12) },
    ],
    vocab,
    3,
  )(2)
  const [tokens, labels] = [data('tokens'), data('labels')]
  ok(tokens.every(token => Number.isInteger(token) && token >= 0 && token < vocab))
  ok(labels.every(label => Number.isInteger(label) && label < vocab && (label >= 0 || label === -1 || label === -100)))
  ok(labels[0] >= 0)
  for (let i = 0; i < tokens.length - 1; i++) if (i % 16 < 15 && labels[i] >= 0) equal(labels[i], tokens[i + 1])
  const counts = Array.from({ length: 12 }, (_, b) => labels.slice(b * 16, b * 16 + 16).filter(l => l >= 0).length)
  ok(new Set(counts).size > 3, counts.join(' '))
})

test('data depends on seed, step and sample, and not on how many samples there are or where the batch dim is', () => {
  const tokens = (samples: number, seed: number, step: number) =>
    syntheticData([{ name: 'tokens', ...text(samples) }], vocab, seed)(step)('tokens')
  deepEqual(tokens(4, 1, 0), tokens(8, 1, 0).slice(0, 64))
  ok(tokens(4, 1, 0).some((token, i) => token !== tokens(4, 2, 0)[i]))
  ok(tokens(4, 1, 0).some((token, i) => token !== tokens(4, 1, 1)[i]))
  const noise = (dims: string) => syntheticData([{ name: 'x', dtype: 'f32', ...tensorOf(dims) }], 0, 1)(0)('x')
  const [rows, columns] = [noise('batch 3, embed 2'), noise('embed 2, batch 3')]
  deepEqual([rows[1], rows[4]], [columns[3], columns[2]])
})
