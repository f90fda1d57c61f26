/** What the model builder refuses, in its own words, and how many numbers the families train. */
import { equal, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { elementsOf } from '../src/base/index.js'
import {
  type BlockBuilder,
  buildModel,
  type Carry,
  defineModel,
  type ModelBuilder,
  ModelConfig,
  type ModelInput,
  normal,
  parametersOf,
} from '../src/model/index.js'

type D = 'batch' | 'seq' | 'embed' | 'ffn'
const any = normal(1)
const x = (b: BlockBuilder<D>) => b.input('x', ['batch', 'seq', 'embed'])

function refuses(title: string, write: (model: ModelBuilder<D>) => void, message: RegExp) {
  test(`the builder refuses ${title}`, () =>
    throws(() => defineModel('bad', { batch: 2, seq: 3, embed: 4, ffn: 5 }, write), message))
}
const inBlock = (write: (block: BlockBuilder<D>) => Carry) => (model: ModelBuilder<D>) => model.block('only', write)

refuses(
  'two blocks of one name',
  model => {
    model.block('a', b => ({ x: x(b) }))
    model.block('a', (_, { x }) => ({ x }))
  },
  /there is a block named a already/,
)
refuses(
  'a block named as one of a repetition',
  model => {
    model.block('layers.1', b => ({ x: x(b) }))
    model.repeat('layers', 2, (_, { x }) => ({ x }))
  },
  /there is a block named layers.1 already/,
)
refuses(
  'one parameter in two shapes',
  inBlock(b => ({ a: b.param('p', ['embed'], any), b: b.param('p', ['seq', 'embed'], any) })),
  /the block has two parameters named p/,
)
refuses(
  'one input in two shapes',
  inBlock(b => ({ a: x(b), b: b.input('x', ['batch', 'seq', 'embed'], 'i32') })),
  /input x is asked for as i32 \[batch seq embed\] and as f32 \[batch seq embed\]/,
)
refuses(
  'a loss that is followed by more',
  inBlock(b => {
    b.meanSquare(x(b), b.input('target', ['batch', 'seq', 'embed']))
    return { x: x(b) }
  }),
  /the block with the loss must be the last: its outputs x are unused/,
)
refuses(
  'two losses',
  inBlock(b => {
    b.meanSquare(x(b), b.input('target', ['batch', 'seq', 'embed']))
    b.meanSquare(b.gelu(x(b)), b.input('target', ['batch', 'seq', 'embed']))
    return {}
  }),
  /a model has one loss/,
)
refuses(
  'a contraction that sums what one operand alone has',
  inBlock(b => ({ y: b.contract(x(b), b.param('w', ['embed'], any), ['batch']) })),
  /the result must keep seq/,
)
refuses(
  'a contraction whose result has what no operand has',
  inBlock(b => ({ y: b.contract(x(b), b.param('w', ['embed'], any), ['batch', 'seq', 'ffn']) })),
  /dim ffn of size 5 does not fit/,
)
refuses(
  'a tie to a parameter nobody has',
  inBlock(b => ({ y: b.tied('embed.tokens') })),
  /no parameter named embed.tokens/,
)

const gpt = { family: 'gpt', layers: 3, embed: 8, heads: 2, vocab: 11 } as const
const llama = { family: 'llama', layers: 3, embed: 8, heads: 4, kvHeads: 2, ffn: 12, vocab: 11 } as const
const configs: Record<string, ModelInput> = {
  mlp: { family: 'mlp', layers: 3, embed: 4, ffn: 7 },
  gpt,
  'gpt, untied': { ...gpt, tied: false, ffn: 9 },
  llama,
  'llama with everything': { ...llama, tied: true, qkvBias: true, qkNorm: true, headDim: 6 },
}
for (const [title, input] of Object.entries(configs))
  test(`${title} trains as many numbers as its config counts`, () => {
    const config = ModelConfig.parse(input)
    const { params } = buildModel(config, { batch: 2, seq: 5 })
    equal(
      params.reduce((sum, { dims }) => sum + elementsOf(dims), 0),
      parametersOf(config, 5),
    )
  })
