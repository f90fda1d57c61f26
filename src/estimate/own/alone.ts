/** Attention by itself, with nothing before or after it: how long the queries of a rank and the keys of all take to meet. */
import { defineModel, type Model, normal, type StepShape, type TransformerDim } from '../../model/index.js'
import { tableOf } from '../book.js'
import type { Setup } from '../setup.js'
import type { Shape } from '../shape.js'
import { lanesOf } from './lanes.js'
import { BlockStructures, ofBlocks } from './structures.js'
import { played } from './tasks.js'

/** Of one layer and one microbatch. */
export function attentionAlone(setup: Setup): { readonly forward: number; readonly backward: number } {
  const table = tableOf(setup)
  const structures = new BlockStructures(setup, step => attentionModel(setup.shape, step))
  const split = ofBlocks(setup)
  const { F, B } = structures.of(split).plain!
  const [sizes, lanes] = [structures.sizesOf(split), lanesOf(split, table)]
  const [forward, backward] = [F, B].map(
    task => played(task, structures.costs, sizes, lanes, setup.software.contention).now,
  )
  return { forward, backward }
}

/** Queries, keys and values come from somewhere, and what attention makes of them goes somewhere. */
function attentionModel({ embed, heads, kvHeads, headDim }: Shape, { batch, seq }: StepShape): Model {
  const sizes = { batch, seq, embed, kvHeads, group: heads / kvHeads, headDim, ffn: 1, vocab: 1 }
  const each: TransformerDim[] = ['batch', 'seq']
  return defineModel('attention', sizes as Readonly<Record<TransformerDim, number>>, model => {
    model.block('input', b => {
      const x = b.input('x', [...each, 'embed'])
      const made = (name: string, dims: TransformerDim[]) =>
        b.contract(x, b.param(name, ['embed', ...dims], normal(1)), [...each, ...dims], name)
      const [q, k, v] = [
        made('q', ['kvHeads', 'group', 'headDim']),
        ...['k', 'v'].map(n => made(n, ['kvHeads', 'headDim'])),
      ]
      return { q, k, v }
    })
    model.block('attention', (b, { q, k, v }) => ({ x: b.attention(q, k, v) }))
    model.block('loss', (b, { x }) => {
      b.meanSquare(x, b.input('target', [...each, 'kvHeads', 'group', 'headDim']))
      return {}
    })
  })
}
