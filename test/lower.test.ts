/** From tensors with named dims to what kernels take, and what they do not take, said before a run. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { commandNames, lower, RefusalError } from '../src/engine/native/index.js'
import { counterOf, matmulOf, runsOf } from '../src/engine/native/lower/shapes.js'
import type { Program } from '../src/ir/index.js'
import { jobOf } from './jobs.js'

/** 'b2 s3 e4' -> dims. */
const dims = (text: string) =>
  text
    .split(' ')
    .flatMap(word => (word === '' ? [] : [{ name: word.replace(/\d+$/, ''), size: Number(/\d+$/.exec(word)) }]))

const matmul = (a: string, b: string, out: string): string => {
  const { swap, m, n, k, transA, transB, batch } = matmulOf(dims(a), dims(b), dims(out))
  return `${batch > 1 ? `${batch} x ` : ''}${m} ${n} ${k}${transA ? ' A^T' : ''}${transB ? ' B^T' : ''}${swap ? ' swapped' : ''}`
}

const contractions: [string, string, string, string][] = [
  ['b2 s3 e4', 'e4 f5', 'b2 s3 f5', '6 5 4'],
  ['b2 s3 f5', 'e4 f5', 'b2 s3 e4', '6 4 5 B^T'],
  ['b2 s3 e4', 'b2 s3 f5', 'e4 f5', '4 5 6 A^T'],
  ['b2 s3 e4', 'b2 s3 v5', 'v5 e4', '5 4 6 A^T swapped'],
  ['b2 s3 e4', 'e4 h2 g1 d3', 'b2 s3 h2 g1 d3', '6 6 4'],
  ['b2 s3 h2 g1 d3', 'h2 g1 d3 e4', 'b2 s3 e4', '6 4 6'],
  ['x2 m3 k4', 'x2 k4 n5', 'x2 m3 n5', '2 x 3 5 4'],
  ['k4', 'k4 n5', 'n5', '1 5 4'],
  ['m3', 'n5', 'm3 n5', '3 5 1'],
]
for (const [a, b, out, expected] of contractions)
  test(`[${a}] with [${b}] into [${out}] is a matmul ${expected}`, () => assert.equal(matmul(a, b, out), expected))

test('dims that interleave are no matmul of dense rows', () => {
  assert.throws(() => matmul('m3 k4 p2', 'k4 n5', 'm3 p2 n5'), /is not a matmul of dense rows/)
  assert.throws(() => matmul('m3 k4', 'k4 n5', ''), /is not a matmul of dense rows/)
})

test('a part of a tensor is copied in as few runs as there are gaps', () => {
  const runs = (piece: string, from: string) =>
    runsOf(dims(piece), dims(from), dims(piece)).map(r => `${r.from}: ${r.rows} x ${r.columns} by ${r.strideFrom}`)
  assert.deepEqual(runs('b2 s3 e4', 'b8 s3 e4'), ['0: 1 x 24 by 24'])
  assert.deepEqual(runs('b2 s3 e4', 'b8 s6 e4'), ['0: 2 x 12 by 24'])
  assert.deepEqual(runs('b2 s3 e2', 'b8 s6 e4'), ['0: 3 x 2 by 4', '24: 3 x 2 by 4'])
  assert.deepEqual(runs('', ''), ['0: 1 x 1 by 1'])
})

test('a mask counts elements by their place in the whole tensor', () => {
  const counter = (piece: string, whole: string, until?: number, gap = 0) => {
    const parts = dims(piece).map(({ name, size }) => ({
      ...{ origin: 0, until: name === 's' && until !== undefined ? until : size, gap: name === 's' ? gap : 0 },
    }))
    const { n0, n1, n2, stride0, stride1, ...rest } = counterOf(dims(piece), dims(whole), parts)
    return `${n0} by ${stride0}, ${n1} by ${stride1}, ${n2}${rest.gap > 0 ? `; ${rest.gap} more from ${rest.until} on` : ''}`
  }
  assert.equal(counter('b2 s3 e4', 'b8 s3 e4'), '1 by 0, 1 by 0, 24')
  assert.equal(counter('b2 s3 e2', 'b8 s6 e4'), '2 by 24, 3 by 4, 2')
  assert.equal(counter('b2 s4 e4', 'b8 s16 e4', 2, 8), '2 by 64, 4 by 4, 4; 8 more from 2 on')
})

const options = { seed: 1, reserved: 64, workspaceBytes: 1024, waiting: { timeoutMs: 1000, spin: 0, yields: 0 } }

test('what the backend cannot do is said for the whole program, by instruction', () => {
  const program = compileJob(jobOf('mlp', {}))
  const [name, segment] = Object.entries(program.segments).find(([, { instrs }]) => instrs.some(i => i.kind === 'add'))!
  const [ref, buffer] = Object.entries(segment.buffers).find(
    ([
      ,
      {
        dims: [first, ...more],
      },
    ]) => first?.name === 'batch' && more.length === 2,
  )!
  const turned = { ...buffer, dims: buffer.dims.toReversed() }
  const broken: Program = {
    ...program,
    segments: { ...program.segments, [name]: { ...segment, buffers: { ...segment.buffers, [ref]: turned } } },
  }
  assert.throws(
    () => lower(broken, options),
    (error: unknown) =>
      error instanceof RefusalError &&
      error.refusals.every(line => line.startsWith(`${name} [`)) &&
      error.refusals.length > 0,
  )
})

test('a list says whom each of its waits is for, and words of the step are where masks are', () => {
  const { lists, map } = lower(compileJob(jobOf('gpt tied', { dp: 2, pp: 2, microbatches: 2 })), options)
  assert.equal(map.ranks.length, 4)
  for (const { words, starts, peers, stepWords } of lists) {
    const nameOf = (start: number) => commandNames[words[start]]
    for (const [i, start] of starts.entries())
      assert.equal(nameOf(start).startsWith('wait'), peers.has(i), nameOf(start))
    const timed = starts.filter(start => ['dropout', 'attention', 'attentionGrad'].includes(nameOf(start)))
    assert.equal(stepWords.length, timed.length)
  }
})

test('every rank looks at its own copy of every gradient before it is updated', () => {
  const { lists } = lower(compileJob(jobOf('gpt', { dp: 2, tp: 2 })), options)
  const looks = lists.map(({ words, starts }) => starts.filter(at => commandNames[words[at]] === 'sumSquares').length)
  assert.ok(looks[0] > 0 && looks.every(count => count === looks[0]), looks.join(' '))
})
