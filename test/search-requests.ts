/** Requests for the toy prices: a small llama, a few devices. */
import { eras, type Shape } from '../src/estimate/index.js'
import { LlamaConfig } from '../src/model/index.js'
import { parseConstraints, type Request } from '../src/search/index.js'
import { toyCluster } from './search-prices.js'

const model = LlamaConfig.parse({ family: 'llama', layers: 6, embed: 64, heads: 8, kvHeads: 2, ffn: 96, vocab: 64 })

const shapeOf = (layers: number): Shape => ({
  ...{ layers, embed: 64, heads: 8, kvHeads: 2, headDim: 8, ffn: 96, gated: true, vocab: 64, tied: false },
  ...{ biases: false, norm: 'rms', dropout: false, positions: 'rotary', seq: 16 },
})

export interface Asked {
  readonly devices?: number
  readonly batch?: number
  readonly layers?: number
  readonly memory?: number
  readonly constraints?: readonly string[]
}

export const toyRequest = ({
  devices = 8,
  batch = 16,
  layers = 6,
  memory = 64,
  constraints = [],
}: Asked = {}): Request => ({
  model: { ...model, layers },
  shape: shapeOf(layers),
  globalBatch: batch,
  cluster: toyCluster(devices, memory),
  precision: 'bf16',
  software: eras.lockstep,
  constraints: parseConstraints(constraints).constraints,
})
