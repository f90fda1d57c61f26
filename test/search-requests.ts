/** Requests to search with: a llama of a few billion parameters on a few devices, so that whole spaces can be priced. */
import { GiB } from '../src/base/index.js'
import { clusterOf } from '../src/cluster/index.js'
import { EstimateBook, type FrameworkName, frameworks, shapeOf } from '../src/estimate/index.js'
import { LlamaConfig } from '../src/model/index.js'
import { parseConstraints, type Request } from '../src/search/index.js'

export interface Asked {
  readonly devices?: number
  readonly batch?: number
  readonly layers?: number
  readonly seq?: number
  /** GiB of a device. */
  readonly memory?: number
  readonly constraints?: readonly string[]
  readonly software?: FrameworkName
  /** Routed layers: so many experts, of which a token chooses two. */
  readonly experts?: number
}

export function requestOf(asked: Asked = {}): Request {
  const { devices = 16, batch = 16, layers = 12, memory = 80, constraints = [], software = 'megatron-2024' } = asked
  const { seq = 4096, experts } = asked
  const sizes = { embed: 4096, heads: 32, kvHeads: 8, ffn: 14336, vocab: 32768 }
  const moe = experts && { experts, topK: 2, ffn: 1024 }
  const model = LlamaConfig.parse({ family: 'llama', layers, ...sizes, ...(moe && { moe }) })
  return {
    model,
    shape: shapeOf(model, seq)!,
    globalBatch: batch,
    cluster: clusterOf('h100', devices, { memory: GiB(memory) }),
    precision: 'bf16',
    software: frameworks[software],
    constraints: parseConstraints(constraints).constraints,
    book: new EstimateBook(),
  }
}
