/** lockstep bench: the numbers are for people; that they are of right results, and how they are told, is for tests. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type BenchRow, benchOps, commands, nativeMissing } from '../src/engine/native/index.js'
import { trials } from '../src/engine/native/kernels/table.js'
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

test('every trial of bench kernels has the words of its command', () => {
  for (const { command, ins, outs, words } of trials({ batch: 1, seq: 8 })) {
    const given = { ...ins, ...outs, ...words }
    assert.deepEqual(
      commands[command].filter(word => !Object.hasOwn(given, word)),
      [],
      command,
    )
  }
})

test('bench kernels holds a kernel against the reference and its limit', async () => {
  const kernels = nativeMissing() ? 'wasm' : 'native'
  const options = ['--kernels', kernels, '--only', 'rmsNorm', '--ms', '1', '--roofline', '--json']
  const { code, out } = await lockstep(['bench', 'kernels', ...options])
  assert.equal(code, 0, out)
  const rates = out
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line) as { kernel: string; limit: string; share: number })
  assert.deepEqual(
    rates.map(({ kernel, limit }) => [kernel, limit]),
    [
      ['rmsNorm', 'memory'],
      ['rmsNormInputGrad', 'memory'],
    ],
  )
  for (const { share } of rates) assert.ok(share > 0 && share < Infinity)
})

test('bench kernels says what was chosen from what', async () => {
  const { code, out } = await lockstep(['bench', 'kernels', '--kernels', 'wasm-plain', '--only', 'nothing'])
  assert.equal(code, 0)
  for (const variant of ['4x8', '4x16', '4x8-lanes', '4x16-lanes'])
    assert.match(out, new RegExp(`wasm-plain +${variant} `))
  assert.match(out, /% +chosen/)
})
