/** A model that answers tokens with logits, and remembers the tokens it was fed. */
import { ProblemsError } from '../base/index.js'
import { type StartDecoderOptions, startDecoder } from '../engine/index.js'
import type { Adapters, ModelConfig } from '../model/index.js'
import { forwardOf } from './forward.js'
import { refused } from './phrases.js'

export type Logits = Float32Array | Float64Array

/** A forward pass with a KV cache: feed token ids, get the logits of the next token. */
export interface Decoder {
  /** A description for people: kernels and threads. */
  readonly description: string
  readonly vocab: number
  /** The length of the KV cache. */
  readonly context: number
  /** Tokens in the KV cache. */
  readonly past: number
  /** Appends tokens to the KV cache and returns the logits of the next token. */
  feed(ids: readonly number[]): Promise<Logits>
  /** Truncates the KV cache to this many tokens. */
  rewind(past: number): void
  stop(): Promise<void>
}

export interface DecoderOptions extends StartDecoderOptions {
  /** The length of the KV cache in tokens; with learned position embeddings, at most their number. */
  readonly context: number
  /** Small matrices that are added to the model's, where it was trained with any. */
  readonly adapters?: Adapters | undefined
}

/** Fills a weight of the model, whole, row-major. */
export type FillWeight = (name: string, values: Logits) => void

/** Longer prompts are read in several passes: what these need at once stays small. */
const mostTokens = 64

/** A decoder with a KV cache, for weights the caller supplies. */
export async function createDecoder(model: ModelConfig, fill: FillWeight, options: DecoderOptions): Promise<Decoder> {
  if (model.family === 'mlp') throw new ProblemsError([refused('model.family', 'generate/model')])
  const { context, adapters } = options
  if (!Number.isSafeInteger(context) || context < 1)
    throw new ProblemsError([refused('context', 'generate/options/context', { context: String(context) })])
  const forward = forwardOf(model, { context, tokens: Math.min(mostTokens, context), adapters })
  const engine = await startDecoder(forward.room, options)
  try {
    for (const name of Object.keys(forward.room.weights)) fill(name, engine.weight(name))
  } catch (e) {
    await engine.stop()
    throw e
  }
  const { vocab } = model
  let past = 0
  return {
    ...{ description: engine.description, vocab, context },
    get past() {
      return past
    },
    async feed(ids) {
      requireIds(ids, vocab, context - past)
      let logits: Logits = new Float32Array(0)
      for (let at = 0; at < ids.length; at += mostTokens) {
        const some = ids.slice(at, at + mostTokens)
        logits = await engine.run(forward.pass(some.length), some, past)
        past += some.length
      }
      return logits
    },
    rewind(to) {
      if (!Number.isSafeInteger(to) || to < 0 || to > past)
        throw new Error(`${to} is not one of the ${past} cached tokens`)
      past = to
    },
    stop: () => engine.stop(),
  }
}

function requireIds(ids: readonly number[], vocab: number, room: number): void {
  const wrong = ids.find(id => !Number.isSafeInteger(id) || id < 0 || id >= vocab)
  const problems = [
    ...(ids.length === 0 ? [refused('', 'generate/prompt/none')] : []),
    ...(wrong === undefined ? [] : [refused('', 'generate/prompt/id', { id: String(wrong), vocab })]),
    ...(ids.length > room ? [refused('', 'generate/prompt/room', { tokens: ids.length, room })] : []),
  ]
  if (problems.length > 0) throw new ProblemsError(problems)
}
