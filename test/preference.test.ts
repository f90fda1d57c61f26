/** Which tile is taken, by times that are made up: the first of those that are about as fast as the best, whatever one turn says. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { margin, preferred, type Turns } from '../src/engine/native/kernels/preference.js'

/** One work; a line is a turn, a column the milliseconds of a contender. */
const drawn = (picture: string): Turns =>
  picture
    .trim()
    .split('\n')
    .map(line => [line.trim().split(/ +/).map(Number)])

/** The same times in each of n turns. */
const steady = (n: number, ...times: number[]): Turns => Array.from({ length: n }, () => [times])

test('of equals the first is taken', () => {
  deepEqual(preferred(steady(7, 10, 10, 10)), { chosen: 0, behind: [1, 1, 1] })
  deepEqual(preferred(steady(1, 10)), { chosen: 0, behind: [1] })
})

test('of those that are nearly as fast as the best the first is taken', () => {
  equal(preferred(steady(7, 12, 10.4, 10.2, 10)).chosen, 1)
  equal(preferred(steady(7, 10 * (margin - 0.001), 10)).chosen, 0)
})

test('one that is clearly faster is taken, wherever it stands', () => {
  for (const at of [0, 1, 2, 3])
    equal(preferred(steady(7, ...[0, 1, 2, 3].map(i => (i === at ? 9 : 10)))).chosen, at, `${at}`)
  equal(preferred(steady(7, 10 * (margin + 0.001), 10)).chosen, 1)
})

test('nearly as fast is said of the best, not of the one before: three small steps are a large one', () =>
  equal(preferred(steady(7, 10, 9.6, 9.2)).chosen, 1))

const lucky = `
  10  9  10
  10  9  10
  10  9  10
  10  9  10
  10  9  10`

for (const turn of [0, 2, 4])
  for (const contender of [0, 1, 2])
    for (const times of [0.3, 5])
      test(`turn ${turn} in which contender ${contender} takes ${times} times as long does not decide`, () => {
        const turns = drawn(lucky).map((works, i) =>
          works.map(seconds => seconds.map((s, j) => (i === turn && j === contender ? s * times : s))),
        )
        deepEqual(preferred(turns), preferred(drawn(lucky)))
        equal(preferred(turns).chosen, 1)
      })

test('turns that are slow for everybody change nothing, be they the most', () => {
  const busy = `
  10  9  10
  23 21  23
  24 21.5 24
  23 21  23
  10  9  10`
  const { chosen, behind } = preferred(drawn(busy))
  equal(chosen, 1)
  ok(Math.abs(behind[0] - 10 / 9) < 1e-12, `${behind}`)
})

test('every work counts alike, however long it takes', () => {
  const works = [
    [100, 90],
    [1, 1.3],
  ]
  const { chosen, behind } = preferred([works, works, works])
  equal(chosen, 0)
  ok(Math.abs(behind[1] - Math.sqrt(0.9 * 1.3)) < 1e-12, `${behind}`)
})
