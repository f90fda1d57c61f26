/** Which products share a packed operand: those that read the same, and nobody has written in between. */
import { deepEqual, equal } from 'node:assert/strict'
import { test } from 'node:test'
import { compileJob } from '../src/compile/index.js'
import { commandNames, lower } from '../src/engine/native/index.js'
import { ListWriter, wordOf } from '../src/engine/native/lower/list.js'
import { Panels } from '../src/engine/native/lower/panels.js'
import type { PlanInput } from '../src/plan/index.js'
import { jobOf } from './jobs.js'

const blank = {
  ...{ panels: 0, packs: 0, sums: 0, adds: 0 },
  out: 0,
  a: 0,
  b: 0,
  bias: 0,
  add: 0,
  transA: 0,
  transB: 0,
  batch: 1,
  strideA: 0,
  strideB: 0,
  strideOut: 0,
}

/**
 * Products and writes, a word each: `w` multiplies with frame w, `w!` writes it; gives for each product where its operand
 * lies packed, `+` if it packs it, and `-` where nobody shares it. Capital letters are operands of twice the size.
 */
function shared(text: string, mostBytes = 1000): string {
  const panels = new Panels({ columns: 4, mostBytes })
  const list = new ListWriter()
  const starts = text.split(' ').flatMap(word => {
    const frame = word.toLowerCase().charCodeAt(0)
    if (word.endsWith('!')) panels.touch(frame)
    if (word.endsWith('!')) return []
    const sizes = { m: 2, n: word === word.toUpperCase() ? 6 : 3, k: 5 }
    const start = list.write('matmulWith', { ...blank, ...sizes })
    panels.note({ frame, at: 64 * frame, ...sizes, transB: false, start })
    return [start]
  })
  let next = 1
  panels.settle(list, bytes => {
    equal(bytes % (4 * 4 * 5), 0) // k rows of whole panels
    return next++
  })
  const { words } = list.finish()
  return starts
    .map(start => [words[start + wordOf('matmulWith', 'panels')], words[start + wordOf('matmulWith', 'packs')]])
    .map(([place, packs]) => (place === 0 ? '-' : `${place}${packs ? '+' : ''}`))
    .join(' ')
}

for (const [text, expected, mostBytes] of [
  ['a a a', '1+ 1 1'],
  ['a b a b', '1+ 2+ 1 2'],
  ['a b', '- -'],
  ['a A a', '1+ - 1'],
  ['a a! a', '- -'],
  ['a a a! a a', '1+ 1 1+ 1'],
  ['a b! a', '1+ 1'],
  ['a a A A b b', '1+ 1 - - 2+ 2', 160],
] as const)
  test(`panels: ${text}`, () => equal(shared(text, mostBytes), expected))

test('weights of a step are packed once for all microbatches, those that are gathered anew once for each gather', () => {
  const count = (plan: PlanInput) => {
    const program = compileJob(jobOf('gpt', plan))
    const waiting = { timeoutMs: 1000, spin: 0, yields: 0 }
    const panels = { columns: 16, mostBytes: 2 ** 20 }
    const { lists } = lower(program, { seed: 1, reserved: 64, workspaceBytes: 1024, waiting, panels })
    const { words, starts } = lists[0]
    const isSummed = (start: number) => words[start + wordOf('matmulWith', 'sums')] !== 0 // of a weight's gradient
    const products = starts.filter(start => commandNames[words[start]] === 'matmulWith' && !isSummed(start))
    const packed = products.filter(start => words[start + wordOf('matmulWith', 'panels')] !== 0)
    const packs = products.filter(start => words[start + wordOf('matmulWith', 'packs')] === 1)
    return [products.length, packed.length, packs.length]
  }
  const [[once, none], [four, shared, packs]] = [count({}), count({ microbatches: 4 })]
  deepEqual([none, four, shared, packs], [0, 4 * once, 4 * once, once])
  deepEqual(count({ dp: 2, zero: 3, microbatches: 4 }).slice(1), [0, 0])
})
