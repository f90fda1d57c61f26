/** One layout into another: which moves, in which order. */
import { equal, throws } from 'node:assert/strict'
import { test } from 'node:test'
import type { Axis, Layout } from '../src/base/index.js'
import { type Move, route } from '../src/compile/reshard.js'

const dims = ['batch', 'seq', 'embed', 'ffn'].map(name => ({ name, size: 64 }))

/** `seq/cp.tp sum:dp` */
function layout(text: string): Layout {
  const splits: Record<string, Axis[]> = {}
  const partial: Record<string, 'sum' | 'max'> = {}
  for (const word of text.split(' ').filter(word => word !== '')) {
    const [dim, axes] = word.split('/')
    if (axes !== undefined) splits[dim] = axes.split('.') as Axis[]
    else partial[word.split(':')[1]] = word.split(':')[0] as 'sum'
  }
  return { splits, partial }
}

const show = (move: Move): string => {
  const axes = move.axes.join('.')
  if (move.kind === 'all-reduce') return `all-reduce ${move.combine} ${axes}`
  return move.kind === 'all-to-all'
    ? `all-to-all ${move.from}>${move.into} ${axes}`
    : `${move.kind} ${move.dim} ${axes}`
}

const goes = (from: string, to: string, moves: string) =>
  test(`[${from}] to [${to}]: ${moves || 'nothing'}`, () =>
    equal(route(dims, layout(from), layout(to)).map(show).join(', '), moves))

goes('', '', '')
goes('sum:tp', '', 'all-reduce sum tp')
goes('sum:tp', 'seq/tp', 'reduce-scatter seq tp')
goes('seq/tp', '', 'all-gather seq tp')
goes('seq/tp', 'ffn/tp', 'all-to-all seq>ffn tp')
goes('', 'ffn/tp', 'slice ffn tp')
goes('max:tp', '', 'all-reduce max tp')
goes('max:tp', 'seq/tp', 'all-reduce max tp, slice seq tp')
goes('sum:dp sum:tp', '', 'all-reduce sum dp.tp')
goes('sum:dp sum:tp', 'embed/dp', 'reduce-scatter embed dp, all-reduce sum tp')
goes('ffn/tp sum:dp', 'ffn/tp.dp', 'reduce-scatter ffn dp')
goes('ffn/tp.dp', 'ffn/tp', 'all-gather ffn dp')
goes('seq/cp.tp', 'seq/cp', 'all-gather seq tp')
goes('seq/tp', 'seq/cp.tp', 'all-gather seq tp, slice seq cp.tp')
goes('batch/dp seq/tp', 'batch/dp', 'all-gather seq tp')
goes('sum:tp', 'sum:tp', '')

test('whole cannot become partial', () => {
  throws(() => route(dims, layout(''), layout('sum:tp')), /no way from/)
})
