/** lockstep bench: the numbers are for people; that they are of right results, and how they are told, is for tests. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type BenchRow, benchOps } from '../src/engine/native/index.js'
import { lockstep } from './memory-io.js'

const bench = (...argv: string[]) => lockstep(['bench', 'collectives', ...argv])

test('bench collectives times every operation of every size and checks it', async () => {
  const { code, out } = await bench('--ranks', '3', '--sizes', '4Ki,100000', '--repeats', '2', '--json')
  const lines = out.trimEnd().split('\n')
  const rows = lines.map(line => JSON.parse(line) as BenchRow)
  assert.equal(code, 0)
  assert.deepEqual(
    rows.map(({ op }) => op),
    [...benchOps, ...benchOps],
  )
  for (const { op, bytes, seconds, algbw, busbw, wrong } of rows) {
    assert.equal(wrong, 0, op)
    assert.ok(Math.abs(algbw * seconds * 1e9 - bytes) < 1e-3 && busbw > 0)
    if (op === 'all-reduce') assert.ok(Math.abs(busbw / algbw - 4 / 3) < 1e-9)
  }
})

test('bench collectives prints a table', async () => {
  const { out } = await bench('--ranks', '1', '--sizes', '4Ki', '--ops', 'all-reduce,copy', '--repeats', '1')
  assert.match(out, /^1 ranks, .*\n\noperation +size +time \(us\) +algbw +busbw +wrong\nall-reduce +4\.00 KiB/)
})

test('bench collectives refuses what it does not know', async () => {
  const { code, err } = await bench('--ops', 'all-reduce,nothing')
  assert.equal(code, 2)
  assert.match(err, /nothing is not copy, all-reduce/)
  assert.equal((await bench('--sizes', '3')).code, 2)
  assert.equal((await bench('--ranks', '0')).code, 2)
})
