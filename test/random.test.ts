/** The generator behind weights, masks and data: known answers, the shape of its distributions, and no memory. */
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { choices, normal, philox, uniform, type Words } from '../src/base/index.js'

const words = (text: string) => text.split(' ').map(word => Number.parseInt(word, 16))

/** From kat_vectors of Random123, the authors' own. */
function answers(counter: string, key: string, expected: string) {
  test(`philox4x32-10 of ${counter} under ${key} is ${expected}`, () => {
    const [k0, k1] = words(key)
    deepEqual(philox(words(counter) as unknown as Words, [k0, k1]), words(expected)) // a counter is four words
  })
}
answers('00000000 00000000 00000000 00000000', '00000000 00000000', '6627e8d5 e169c58d bc57ac4c 9b00dbd8')
answers('ffffffff ffffffff ffffffff ffffffff', 'ffffffff ffffffff', '408f276d 41c83b0e a20bc7c6 6d5451fd')
answers('243f6a88 85a308d3 13198a2e 03707344', 'a4093822 299f31d0', 'd16cfe09 94fdcceb 5001e420 24126ea1')

const count = 100_000
const draw = (from: (index: number) => number) => Array.from({ length: count }, (_, i) => from(i))
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
const near = (what: string, value: number, expected: number, deviation: number) =>
  ok(Math.abs(value - expected) < 5 * deviation, `${what} is ${value}, not ${expected}`)

test('uniform numbers fill [0, 1) evenly, one independent of the next (seed 1)', () => {
  const values = draw(uniform({ seed: 1, name: 'test' }))
  ok(values.every(value => value >= 0 && value < 1))
  const bins = values.reduce(
    (bins, value) => bins.with(Math.floor(100 * value), bins[Math.floor(100 * value)] + 1),
    new Array<number>(100).fill(0),
  )
  // Chi squared of 99 degrees: mean 99, deviation sqrt(198).
  near(
    'chi squared',
    bins.reduce((sum, n) => sum + (n - count / 100) ** 2 / (count / 100), 0),
    99,
    Math.sqrt(198),
  )
  near('the mean', mean(values), 1 / 2, 1 / Math.sqrt(12 * count))
  near(
    'the product of neighbours',
    mean(values.slice(1).map((value, i) => (value - 1 / 2) * (values[i] - 1 / 2))),
    0,
    1 / 12 / Math.sqrt(count),
  )
})

test('normal numbers have the moments of the normal distribution (seed 1)', () => {
  const values = draw(normal({ seed: 1, name: 'test' }))
  const moment = (power: number) => mean(values.map(value => value ** power))
  // The deviation of the mean of x^k is sqrt((E x^2k - (E x^k)^2) / count).
  for (const [power, expected, variance] of [
    [1, 0, 1],
    [2, 1, 2],
    [3, 0, 15],
    [4, 3, 96],
  ])
    near(`moment ${power}`, moment(power), expected, Math.sqrt(variance / count))
  near('the product of neighbours', mean(values.slice(1).map((value, i) => value * values[i])), 0, 1 / Math.sqrt(count))
  ok(values.every(value => Number.isFinite(value) && value === Math.fround(value)))
})

for (const [title, source] of Object.entries({ uniform, normal })) {
  test(`${title} numbers are the same in whatever order they are asked for`, () => {
    const indices = [5, 0, 2 ** 32 + 5, 7, 2 ** 40, 1]
    const forward = source({ seed: 9, name: 'w', step: 3 })
    const values = new Map(indices.map(index => [index, forward(index)]))
    const backward = source({ seed: 9, name: 'w', step: 3 })
    for (const index of indices.toReversed()) equal(backward(index), values.get(index))
    equal(new Set(values.values()).size, indices.length)
  })

  test(`${title} numbers change with seed, name, step and index`, () => {
    const at = (seed: number, name: string, step: number, index: number) => source({ seed, name, step })(index)
    const others = [at(2, 'w', 0, 0), at(1, 'v', 0, 0), at(1, 'w', 1, 0), at(1, 'w', 0, 1), at(1, 'w', 0, 2 ** 32)]
    for (const other of others) notEqual(other, at(1, 'w', 0, 0))
    equal(source({ seed: 1, name: 'w' })(0), at(1, 'w', 0, 0))
  })
}

test('choices are the same for the same seed, and reach every value', () => {
  const pick = (seed: number) => {
    const { int } = choices(seed)
    return Array.from({ length: 100 }, () => int(5))
  }
  deepEqual(pick(4), pick(4))
  notEqual(pick(4).join(), pick(5).join())
  deepEqual([...new Set(pick(4))].sort(), [0, 1, 2, 3, 4])
})
