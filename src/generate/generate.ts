/** Token after token, each drawn from what the decoder makes of those before it. */
import { error, ProblemsError, uniform } from '../base/index.js'
import type { Decoder } from './decoder.js'
import { type Sampling, sampled, samplingProblems } from './sampling.js'

/** Options of `generate`: length, sampling, seed and stop tokens. */
export interface GenerateOptions extends Sampling {
  /** The maximum number of tokens to generate. */
  readonly tokens: number
  /** Seed of the sampling: the same seed gives the same tokens. */
  readonly seed?: number
  /** Stop tokens: generation ends before one of them. */
  readonly end?: number | readonly number[] | undefined
  /** false: no KV cache. Slower, with the same tokens. */
  readonly cache?: boolean
}

/**
 * Generates token ids after the prompt and what is in the KV cache. When the cache is full, the first half is dropped and the
 * rest is recomputed, so the output may be longer than the context.
 */
export async function* generate(
  decoder: Decoder,
  prompt: readonly number[],
  options: GenerateOptions,
): AsyncGenerator<number> {
  const { tokens, seed = 0, end, cache = true } = options
  const ends: readonly unknown[] = Array.isArray(end) ? end : [end]
  const problems = samplingProblems(options)
  if (problems.length > 0) throw new ProblemsError(problems)
  if (decoder.past + prompt.length > decoder.context) throw new ProblemsError([tooLong(decoder, prompt.length)])
  const chance = uniform({ seed, name: 'generate' })
  let [behind, next]: number[][] = [[], [...prompt]]
  for (let made = 0; made < tokens; made++) {
    if (decoder.past + next.length > decoder.context) {
      next = [...behind, ...next].slice(-Math.max(1, decoder.context >> 1))
      behind = []
      decoder.rewind(0)
    }
    const logits = await decoder.feed(next)
    const id = sampled(logits, options, chance(made))
    if (ends.includes(id)) return
    yield id
    if (cache) {
      behind.push(...next)
      next = [id]
    } else {
      decoder.rewind(decoder.past - next.length)
      next.push(id)
    }
  }
}

const tooLong = ({ past, context }: Decoder, prompt: number) =>
  error(
    'generate/prompt',
    'prompt',
    `${past > 0 ? `${past} tokens so far + ` : ''}a prompt of ${prompt} tokens > context ${context}`,
    'shorten it',
  )
