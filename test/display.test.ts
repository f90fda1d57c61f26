/** A run on the screen: nothing is cut off, and numbers are in units people read. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { describe, test } from 'node:test'
import { scaled, showSeconds, showTime } from '../src/base/index.js'
import { pictureOf } from '../src/cli/text/display.js'
import type { StepRecord } from '../src/train/index.js'
import { memoryIo } from './memory-io.js'

const record: StepRecord = {
  ...{ step: 12345, loss: 2.3456, gradientNorm: 1.2345, lr: 0.00123, taken: 12345, counted: 2048, seconds: 0.1234 },
  ...{ tokensPerSecond: 123456, flopsPerSecond: 4.56e11 },
  shares: { compute: 0.41, communication: 0.07, waiting: 0.42, bubble: 0.1 },
}

describe('the picture', () => {
  for (const columns of [40, 60, 80, 120])
    test(`${columns} columns hold every number`, () => {
      const losses = Array.from({ length: 100 }, (_, i) => 5 / (i + 1))
      const given = {
        record,
        first: 12246,
        losses,
        spans: [],
        columns,
        rows: 24,
        steps: 20000,
        left: 3600,
        held: 2.4,
        peak: 1.2e12,
      }
      const lines = pictureOf(given, memoryIo({}).io)
      ok(lines.length < 24)
      for (const line of lines) ok(line.length < columns, line)
      const text = lines.join('\n')
      const numbers = [
        '123.4 ms/step',
        '123k tok/s',
        '456 GFLOP/s',
        'MFU 38 %',
        'compute 41 %',
        'communication 7 %',
        'waiting 42 %',
        'bubble 10 %',
      ]
      for (const number of ['loss 2.3456', 'norm 1.23', 'lr 1.23e-3', ...numbers]) ok(text.includes(number), number)
      match(text, /step └12246─+12345/)
    })
})

describe('units', () => {
  test('times are in the unit that fits after rounding', () => {
    const times: [seconds: number, long: string, short: string][] = [
      [0.99999, '1.000 s', '1.00 s'],
      [0.9994, '999.4 ms', '999 ms'],
      [-0.99999, '-1.000 s', '-1.00 s'],
      [0.0123, '12.30 ms', '12.3 ms'],
      [0.00099999, '1.000 ms', '1.00 ms'],
      [12.345, '12.35 s', '12.35 s'],
      [12345, '12345 s', '12345 s'],
      [1e-9, '0.0 us', '0.00100 us'],
    ]
    for (const [seconds, long, short] of times) deepEqual([showTime(seconds), showSeconds(seconds)], [long, short])
  })

  test('so are counts', () => {
    equal(scaled(999.7), '1.00k')
    equal(scaled(999), '999')
    equal(scaled(999_999), '1.00M')
  })
})
